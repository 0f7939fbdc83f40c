// The functions that the native gemms need for each instruction set: packing, and the gemm of packed blocks with its
// fused operations. cpu/isa/tile_kernels.cpp is compiled once per instruction set into a table of these functions.
//
// All compute C (m, n) = A (m, k) · B (k, n). B is packed into panels of `columns` columns with element (l, j) of a
// panel at l·columns + j, so that the kernel reads it in order; the last panel is padded with zeros. A is read in place
// or packed likewise into panels of `rows` rows.
//
// Bits: an element of C is one chain of multiply-adds over k in order, which starts with its bias, its old value or
// zero. Blocks over k continue the chain through C, and edge tiles run the same chain, so the bits depend only on the
// operands. (A link of the chain is a word, with AMX 16 words.)
//
// Kernels multiply words of 32 bits: floats, or, if the processor multiplies them, pairs of bf16 that are neighbours
// along k (the last pair has a zero if k is odd; isa/words.hpp). Operands of other types (Source) are converted to
// words when they are packed, or, for an A that would be read in place, in a separate block in the second-level cache.
// A 16-bit result is stored from a block of floats once its chains are complete.
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {

inline constexpr std::int64_t longest_block = 384;  ///< words along k: a panel of B takes 24 KiB with AVX2

/// The initial value of a tile's chains.
enum class Begin { zero, bias, existing };

/// The operation applied to a tile once its chains are complete.
enum class End {
  nothing,
  gelu,        ///< second = gelu(c)
  gelu_slope,  ///< c = c · gelu'(second)
};

/// Storage type of an operand and its conversion on reading: its elements, or floats rounded to a 16-bit type.
enum class Source { fp32, bf16, fp16, fp32_as_bf16, fp32_as_fp16 };
inline constexpr int sources = 5;

constexpr std::int64_t bytes_of(Source source) {
  return source == Source::bf16 || source == Source::fp16 ? 2 : 4;
}

/// One block of C: all m × n elements, with k words of their terms, at most longest_block. Strides of A and B count
/// words.
struct TileJob {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  bool a_packed = false;
  std::int64_t a_stride = 0;  ///< between rows; for packed A between panels
  const float* b = nullptr;
  std::int64_t b_stride = 0;  ///< between panels
  float* c = nullptr;
  std::int64_t c_stride = 0;
  Begin begin = Begin::zero;
  const float* bias = nullptr;  ///< (n)
  End end = End::nothing;
  float* second = nullptr;  ///< (m, n): written by gelu, read by gelu_slope
  std::int64_t second_stride = 0;
};

/// A matrix to pack: `length` terms of `count` rows of A or columns of B.
struct PackJob {
  const void* from = nullptr;
  std::int64_t stride = 0;  ///< elements between rows of the matrix as stored
  std::int64_t length = 0, count = 0;
  float* to = nullptr;
  std::int64_t panel_stride = 0;  ///< words between panels; for A at least row_panel_words()
};

/// Rows of a block of C, to convert between its floats and its storage.
struct BlockJob {
  float* block = nullptr;
  std::int64_t block_stride = 0, rows = 0, columns = 0;
  void* stored = nullptr;
  std::int64_t stride = 0;
  End end = End::nothing;
  void* second = nullptr;  ///< of the type of `stored`: written by gelu (of the stored values), read by gelu_slope
  std::int64_t second_stride = 0;
};

/// Functions for each Source. Kernels that multiply pairs have them only for bf16 and fp32_as_bf16.
struct SourceKernels {
  void (*pack_columns)(const PackJob&);             ///< B stored (length, count)
  void (*pack_columns_transposed)(const PackJob&);  ///< B stored (count, length)
  void (*pack_rows_transposed)(const PackJob&);     ///< A stored (length, count)
  /// to: words of (count, length) with row stride panel_stride, from A stored (count, length).
  void (*copy_rows)(const PackJob&);
  /// sums[i] += Σ over the rows of `from` (length, count) in order, without rounding.
  void (*add_column_sums)(const void* from, std::int64_t stride, std::int64_t length, std::int64_t count, float* sums);
  /// For storage types only; null if Source rounds.
  void (*load_block)(const BlockJob&);
  void (*store_block)(const BlockJob&);
};

struct TileKernels {
  const char* name;
  std::int64_t rows, columns;     ///< of a tile
  std::int64_t terms;             ///< per word
  std::int64_t longest_in_place;  ///< words along k of a block whose A is read in place, at most longest_block
  std::int64_t row_block;         ///< words of A's rows per pass over B: they fit into the second-level cache
  std::int64_t words(std::int64_t length) const { return (length + terms - 1) / terms; }
  /// Words from one packed panel of A to the next; stores of whole vectors extend past the end of its last row.
  std::int64_t row_panel_words(std::int64_t word_rows) const { return (rows * word_rows + 31) / 16 * 16; }
  void (*multiply)(const TileJob&);
  SourceKernels by_source[sources];
  const SourceKernels& of(Source source) const { return by_source[static_cast<int>(source)]; }
};

/// One function per instruction set of this build.
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
const TileKernels& pair_kernels();  ///< for gemms whose two operands are both read as bf16
}  // namespace x86_64_v4_bf16
namespace x86_64_amx {
const TileKernels& pair_kernels();
bool pair_kernels_are_right();  ///< whether this processor computes a product that is known
}  // namespace x86_64_amx

}  // namespace bert_hpc::ops::cpu
