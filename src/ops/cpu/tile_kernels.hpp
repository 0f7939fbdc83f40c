// What an instruction set must offer to the native matrix products: packing, and the product of packed blocks with what
// is fused to it. cpu/isa/tile_kernels.cpp is compiled once per instruction set into a table of these functions.
//
// All work on C (m, n) = A (m, k) · B (k, n). B is packed into panels of `columns` columns: element (l, j) of a panel
// at l·columns + j, so that the kernel reads it in order, the last panel filled up with zeros. A is read where it lies,
// or packed into panels of `rows` rows likewise.
//
// Bits: an element of C is one chain of multiply-adds over k in order, begun with its bias, its old value or zero.
// Blocks over k continue the chain through C, and edge tiles run the same chain, so nothing but the operands decides
// the bits.
//
// Kernels multiply words of 32 bits: floats, or pairs of bf16, neighbours along k, where a processor multiplies them
// (the last with a zero where k is odd; isa/words.hpp). Operands of other kinds (Source) become such words where they
// are packed, or, of an A that would be read where it lies, in a block of its own in the second cache; a result of 16
// bits leaves a block of floats once its chains are complete.
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {

/// What a tile's chains begin with.
enum class Begin { zero, bias, existing };

/// What is applied to a tile once its chains are complete.
enum class End {
  nothing,
  gelu,        ///< second = gelu(c)
  gelu_slope,  ///< c = c · gelu'(second)
};

/// How an operand is stored, and what is read of it: its elements, or floats rounded to a 16-bit type.
enum class Source { fp32, bf16, fp16, fp32_as_bf16, fp32_as_fp16 };
inline constexpr int sources = 5;

constexpr std::int64_t bytes_of(Source source) {
  return source == Source::bf16 || source == Source::fp16 ? 2 : 4;
}

/// One block of C: all of its m × n elements, k words of their terms. Strides of A and B count words.
struct TileJob {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  bool a_packed = false;
  std::int64_t a_stride = 0;  ///< from row to row; of packed A: from panel to panel
  const float* b = nullptr;
  std::int64_t b_stride = 0;  ///< from panel to panel
  float* c = nullptr;
  std::int64_t c_stride = 0;
  Begin begin = Begin::zero;
  const float* bias = nullptr;  ///< (n)
  End end = End::nothing;
  float* second = nullptr;  ///< (m, n): written by gelu, read by gelu_slope
  std::int64_t second_stride = 0;
};

/// A matrix to be packed: `length` terms of `count` rows of A or columns of B.
struct PackJob {
  const void* from = nullptr;
  std::int64_t stride = 0;  ///< elements from row to row of the matrix as stored
  std::int64_t length = 0, count = 0;
  float* to = nullptr;
  std::int64_t panel_stride = 0;  ///< words from panel to panel; of A at least row_panel_words()
};

/// Rows of a block of C between its floats and where it is stored.
struct BlockJob {
  float* block = nullptr;
  std::int64_t block_stride = 0, rows = 0, columns = 0;
  void* stored = nullptr;
  std::int64_t stride = 0;
  End end = End::nothing;
  void* second = nullptr;  ///< of the type of `stored`: written by gelu (of what was stored), read by gelu_slope
  std::int64_t second_stride = 0;
};

/// What is made for each Source; of kernels for pairs only bf16 and fp32_as_bf16 have it.
struct SourceKernels {
  void (*pack_columns)(const PackJob&);             ///< B stored (length, count)
  void (*pack_columns_transposed)(const PackJob&);  ///< B stored (count, length)
  void (*pack_rows_transposed)(const PackJob&);     ///< A stored (length, count)
  /// to: words of (count, length), its rows panel_stride apart, from A stored (count, length).
  void (*copy_rows)(const PackJob&);
  /// sums[i] += Σ over the rows in order of from (length, count), never rounded.
  void (*add_column_sums)(const void* from, std::int64_t stride, std::int64_t length, std::int64_t count, float* sums);
  /// Of stored elements, null where Source rounds.
  void (*load_block)(const BlockJob&);
  void (*store_block)(const BlockJob&);
};

struct TileKernels {
  const char* name;
  std::int64_t rows, columns;  ///< of a tile
  std::int64_t terms;          ///< of a word
  std::int64_t row_block;      ///< words of A's rows between two readings of B: what its second cache has room for
  std::int64_t words(std::int64_t length) const { return (length + terms - 1) / terms; }
  /// From one packed panel of A to the next: whole vectors are stored, past the end of its last row.
  std::int64_t row_panel_words(std::int64_t word_rows) const { return (rows * word_rows + 31) / 16 * 16; }
  void (*multiply)(const TileJob&);
  SourceKernels by_source[sources];
  const SourceKernels& of(Source source) const { return by_source[static_cast<int>(source)]; }
};

/// One per instruction set of this build.
namespace baseline {
const TileKernels& tile_kernels();
}
namespace x86_64_v3 {
const TileKernels& tile_kernels();
}
namespace x86_64_v4 {
const TileKernels& tile_kernels();
}
namespace x86_64_v4_bf16 {
const TileKernels& tile_kernels();
const TileKernels& pair_kernels();  ///< for products of which both operands are read as bf16
}  // namespace x86_64_v4_bf16

}  // namespace bert_hpc::ops::cpu
