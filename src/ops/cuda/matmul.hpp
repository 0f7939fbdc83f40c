// One gemm call of a library as plain data, and the gemms of a linear layer. It is independent of the library, so that
// tests run anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "../algorithm_choice.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/float8.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::ops {

/// The largest power of two, at most 16, that divides an address or a number of bytes.
constexpr std::uint32_t alignment_of(std::uint64_t bits) {
  bits |= 16u;
  return static_cast<std::uint32_t>(bits & (~bits + 1));
}

/// Row-major c (m, n) = alpha·op(a)·op(b) + beta·c + bias, with op(a) (m, k) and op(b) (k, n); beta is 0 or 1. `count`
/// of them, from operands that are `step` elements apart.
struct Matmul {
  struct Operand {
    void* data = nullptr;  ///< only c is written
    std::int64_t stride = 0;
    core::DataType type = core::DataType::fp32;
    bool transposed = false;  ///< stored as (columns, rows)
    /// 8-bit numbers instead of `type`, and 1 / their scale in device memory. fp8_matmul.hpp says what is demanded of
    /// such gemms.
    std::optional<core::Float8> eight{};
    const float* inverse = nullptr;
    std::int64_t step = 0;

    /// The largest power of two, at most 16 bytes, that divides address, stride and step: the alignment available to
    /// vector loads.
    std::uint32_t alignment() const {
      return alignment_of(reinterpret_cast<std::uintptr_t>(data) |
                          static_cast<std::uint64_t>((stride | step) * (eight ? 1 : core::bytes_of(type))));
    }
  };
  std::int64_t m = 0, n = 0, k = 0;
  Operand a{}, b{}, c{};
  float beta = 0, alpha = 1;
  std::int64_t count = 1;
  // Vectors of c's type, as the library requires, that an epilogue reads or writes; at most one is set.
  const void* bias = nullptr;          ///< (n), added before the result is stored; or null
  void* sums_of_a = nullptr;           ///< (m), receives the sums of op(a) over k: the gradient of a bias; or null
  bool sums_over_padded_rows = false;  ///< for 8-bit numbers
  bool fast_sums = false;              ///< for 8-bit numbers: the faster, less accurate sums of Hopper's tensor cores

  /// Whether both operands are batches (as in weight gradients).
  bool sums_over_rows() const { return a.transposed || sums_over_padded_rows; }
  /// The extent that changes from batch to batch.
  std::int64_t& rows() { return sums_over_rows() ? k : m; }
  std::int64_t rows() const { return sums_over_rows() ? k : m; }
  bool has_epilogue() const { return bias != nullptr || sums_of_a != nullptr; }
  /// Alignment of all that the gemm writes and its epilogue reads or writes.
  std::uint32_t result_alignment() const {
    return std::min({c.alignment(), alignment_of(reinterpret_cast<std::uintptr_t>(bias)),
                     alignment_of(reinterpret_cast<std::uintptr_t>(sums_of_a))});
  }
};

/// The same gemm with another number of rows, for which the library suggests algorithms. Operands whose rows are the
/// contiguous dimension need matching strides.
inline Matmul with_rows(Matmul product, std::int64_t rows) {
  product.rows() = rows;
  if (product.sums_over_padded_rows) product.a.stride = product.b.stride = rows;
  return product;
}

/// The key of an algorithm choice: extents, with the bucket of the rows; number and kind of the gemms and type of the
/// result; alignments.
using MatmulKey =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::uint32_t, std::uint32_t, std::uint32_t>;

inline MatmulKey key_of(const Matmul& p, std::int64_t rows) {
  const int kind = (p.a.transposed ? 1 : 0) + (p.b.transposed ? 2 : 0) + (p.beta != 0.0f ? 4 : 0) +
                   (p.c.type != core::DataType::fp32 ? 8 : 0) + (p.bias != nullptr ? 16 : 0) + (p.a.eight ? 32 : 0) +
                   (p.a.eight == core::Float8::e5m2 ? 64 : 0) + (p.sums_over_padded_rows ? 128 : 0) +
                   (p.sums_of_a != nullptr ? 256 : 0) + (p.fast_sums ? 512 : 0) + 1024 * static_cast<int>(p.count - 1);
  return {rows, p.n, p.sums_over_rows() ? p.m : p.k, kind, p.a.alignment(), p.b.alignment(), p.result_alignment()};
}

/// How a forward gemm adds its bias.
enum class BiasAdded {
  by_kernel,            ///< by a pass over the stored result
  in_epilogue,          ///< as floats, before the result is stored
  rounded_in_epilogue,  ///< as a copy in the result's type, before the result is stored
};

/// `copied`: does such a copy exist? `fuses`: may gemms of 16-bit operands have epilogues? The library only adds a bias
/// of the result's type. Reproducible gemms use one fixed arithmetic, whatever the library offers.
inline BiasAdded how_bias_is_added(core::DataType compute, core::DataType result, bool copied, bool reproducible,
                                   bool fuses) {
  if (compute == core::DataType::fp32) return BiasAdded::in_epilogue;
  if (reproducible || !fuses) return BiasAdded::by_kernel;
  if (result == core::DataType::fp32) return BiasAdded::in_epilogue;
  return result == compute && copied ? BiasAdded::rounded_in_epilogue : BiasAdded::by_kernel;
}

/// Memory of the operands of a linear layer: x (rows, in), y (rows, out), w (out, in) and bias (out) of y's type; d_w
/// and d_bias (out) in float. bias and d_bias are null if no epilogue uses them.
struct LinearOperands {
  void *x = nullptr, *y = nullptr, *w = nullptr, *bias = nullptr;
  float *d_w = nullptr, *d_bias = nullptr;
  core::DataType d_w_type = core::DataType::fp32;  ///< type of d_w when it is replaced
};

/// The gemms of a linear layer, with operands and results of type `type`: forward, with and without bias; gradient of
/// the input, replaced or added to; gradient of the weight, replaced (also with that of the bias) or added to. Rows of
/// y are padded, as those of logits are. `series` of each: x and y then hold the operands side by side.
inline std::vector<Matmul> linear_products(std::int64_t rows, std::int64_t in, std::int64_t out, core::DataType type,
                                           const LinearOperands& at, std::int64_t series = 1) {
  Matmul::Operand x{at.x, series * in, type, false}, y{at.y, padded_columns(series * out), type, false},
      w{at.w, in, type, false}, d_w{at.d_w, in, at.d_w_type, false};
  if (series > 1) x.step = in, y.step = out, w.step = d_w.step = in * out;
  const auto transposed = [](Matmul::Operand operand) {
    operand.transposed = true;
    return operand;
  };
  const Matmul forward{.m = rows, .n = out, .k = in, .a = x, .b = transposed(w), .c = y, .count = series};
  const Matmul input{.m = rows, .n = in, .k = out, .a = y, .b = w, .c = x, .count = series};
  std::vector<Matmul> all = {forward, input};
  if (at.bias != nullptr) {
    all.push_back(forward);
    all.back().bias = at.bias;
  }
  all.push_back(input);
  all.back().beta = 1;
  const Matmul weight{.m = out, .n = in, .k = rows, .a = transposed(y), .b = x, .c = d_w, .count = series};
  all.push_back(weight);
  if (at.d_bias != nullptr) {
    all.push_back(weight);
    all.back().sums_of_a = at.d_bias;
  }
  all.push_back(weight);
  all.back().c.type = core::DataType::fp32;
  all.back().beta = 1;
  return all;
}

}  // namespace bert_hpc::ops
