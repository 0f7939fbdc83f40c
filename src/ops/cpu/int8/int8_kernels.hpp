// The functions that products of 8-bit integers need for each instruction set. int8_kernels.cpp is compiled once per
// instruction set into a table of these functions.
//
// A row of activations is x[l] ≈ scale · (q[l] − zero), q and zero in [0, 255]; the range of q is that of the row's
// values and 0. A row of weights, which belongs to one output, is w[l] ≈ scale · r[l], r in [−127, 127]. Then
//   y[i][j] = scale_i · scale_j · (Σ_l q[i][l]·r[j][l] − zero_i · Σ_l r[j][l]) + bias[j]
// (Jacob et al., "Quantization and training of neural networks for efficient integer-arithmetic-only inference", 2018,
// equation 7, with weights whose zero is 0). The sums are exact in 32 bits up to a length of `longest_sum`, so they are
// the same on every processor, in every blocking and for any other rows.
//
// Kernels multiply words of 32 bits: as many neighbours along l as the processor multiplies at once
// (integer_words.hpp). Weights are packed into panels of `columns` outputs, word (l, j) of a panel at l·columns + j;
// missing outputs and terms are 0.
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {

inline constexpr std::int64_t longest_sum = 65536;       ///< 255 · 127 · 65536 < 2^31
inline constexpr std::int64_t int8_block_words = 384;    ///< along l, of one call of `multiply`
inline constexpr std::int64_t int8_block_columns = 256;  ///< of one call of `multiply` and `finish`

/// Rows of floats, quantized into words.
struct QuantizeJob {
  const float* from = nullptr;
  std::int64_t stride = 0, rows = 0, length = 0;
  std::uint32_t* to = nullptr;  ///< (rows, words)
  std::int64_t words = 0;       ///< of a row
  float* scales = nullptr;      ///< (rows); NaN if the row has a number that is not finite
  std::int32_t* zeros = nullptr;
};

/// A panel of weights: `outputs` rows of floats, at most `columns` of the table.
struct PanelJob {
  const float* from = nullptr;
  std::int64_t stride = 0, outputs = 0, length = 0;
  std::uint32_t* to = nullptr;
  float* scales = nullptr;       ///< (columns); NaN if the row has a number that is not finite, 0 behind `outputs`
  std::int32_t* sums = nullptr;  ///< (columns): Σ r
};

/// c (m, n) = or += a (m, k words) · panels; n is a multiple of the table's `columns`.
struct IntegerJob {
  std::int64_t m = 0, n = 0, k = 0;
  const std::uint32_t* a = nullptr;
  std::int64_t a_stride = 0;  ///< words between rows
  const std::uint32_t* b = nullptr;
  std::int64_t b_stride = 0;  ///< words between panels
  std::int32_t* c = nullptr;
  std::int64_t c_stride = 0;
  bool adds = false;
};

/// Sums become floats: y = scales ∘ (c − zeros ∘ sums) + bias, or pre = that and y = gelu(pre). At most
/// int8_block_columns columns; those of `column_scales` and `column_sums` are whole panels.
struct FinishJob {
  const std::int32_t* c = nullptr;
  std::int64_t c_stride = 0, rows = 0, columns = 0;
  const float* row_scales = nullptr;
  const std::int32_t* row_zeros = nullptr;
  const float* column_scales = nullptr;
  const std::int32_t* column_sums = nullptr;
  const float* bias = nullptr;  ///< (columns) or null
  float* y = nullptr;
  std::int64_t y_stride = 0;
  float* pre = nullptr;  ///< (rows, columns) with gelu; else null
  std::int64_t pre_stride = 0;
};

struct Int8Kernels {
  const char* name;
  std::int64_t rows, columns;  ///< of a tile
  std::int64_t terms;          ///< per word
  /// So many rows' words and sums fit into the second-level cache; a multiple of `rows`. `multiply` may read and write
  /// as many, if m is less.
  std::int64_t block_rows;
  std::int64_t words(std::int64_t length) const { return (length + terms - 1) / terms; }
  void (*quantize)(const QuantizeJob&);
  void (*pack_panel)(const PanelJob&);
  void (*multiply)(const IntegerJob&);
  void (*finish)(const FinishJob&);
};

/// One function per instruction set of this build.
namespace baseline {
const Int8Kernels& int8_kernels();
}
namespace x86_64_v3 {
const Int8Kernels& int8_kernels();
}
namespace x86_64_v4 {
const Int8Kernels& int8_kernels();
}
namespace x86_64_v4_vnni {
const Int8Kernels& int8_kernels();
}
namespace x86_64_amx {
const Int8Kernels& int8_kernels();
bool int8_kernels_are_right();  ///< whether this processor computes a product that is known
}  // namespace x86_64_amx

/// The fastest of this build that the processor and operating system support.
const Int8Kernels& fastest_int8_kernels();

}  // namespace bert_hpc::ops::cpu
