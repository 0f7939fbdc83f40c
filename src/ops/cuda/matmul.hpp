// One product as a library with a GEMM gets it, as plain data, and which products a linear layer is: without the
// library, so that tests reach it anywhere.
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

/// Row-major c (m, n) = op(a)·op(b) + beta·c + bias, with op(a) (m, k) and op(b) (k, n); beta is 0 or 1.
struct Matmul {
  struct Operand {
    void* data = nullptr;  ///< written of c only
    std::int64_t stride = 0;
    core::DataType type = core::DataType::fp32;
    bool turned = false;  ///< stored as (columns, rows)
    /// 8-bit numbers instead of `type`, and 1 / their scale in device memory. Such products have an a that is not
    /// turned and a b that is: nothing else is offered before Blackwell. Extents are multiples of 16, but for m,
    /// and rows of all three begin at multiples of 16 bytes.
    std::optional<core::Float8> eight{};
    const float* inverse = nullptr;

    /// The largest power of two up to 16 bytes that divides address and stride: what vector loads may count on.
    std::uint32_t alignment() const {
      std::uint64_t bits = reinterpret_cast<std::uintptr_t>(data);
      bits |= static_cast<std::uint64_t>(stride * (eight ? 1 : core::bytes_of(type))) | 16u;
      return static_cast<std::uint32_t>(bits & (~bits + 1));
    }
  };
  std::int64_t m = 0, n = 0, k = 0;
  Operand a{}, b{}, c{};
  float beta = 0;
  const float* bias = nullptr;         ///< (n), added where the result leaves the kernel; or null
  bool sums_over_padded_rows = false;  ///< of 8-bit numbers

  /// Are both operands batches (gradients of weights)?
  bool sums_over_rows() const { return a.turned || sums_over_padded_rows; }
  /// The extent that changes from batch to batch.
  std::int64_t& rows() { return sums_over_rows() ? k : m; }
  std::int64_t rows() const { return sums_over_rows() ? k : m; }
};

/// The same product with another number of rows, for the library to suggest algorithms for. Operands that are stored
/// with rows behind each other need strides for as many.
inline Matmul with_rows(Matmul product, std::int64_t rows) {
  product.rows() = rows;
  if (product.sums_over_padded_rows) product.a.stride = product.b.stride = rows;
  return product;
}

/// What an algorithm is chosen by: extents, with the number of rows that stands for this one; kind, and the result's
/// type; alignments.
using MatmulKey =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, int, std::uint32_t, std::uint32_t, std::uint32_t>;

inline MatmulKey key_of(const Matmul& p, std::int64_t rows) {
  const int kind = (p.a.turned ? 1 : 0) + (p.b.turned ? 2 : 0) + (p.beta != 0.0f ? 4 : 0) +
                   (p.c.type != core::DataType::fp32 ? 8 : 0) + (p.bias != nullptr ? 16 : 0) + (p.a.eight ? 32 : 0) +
                   (p.a.eight == core::Float8::e5m2 ? 64 : 0) + (p.sums_over_padded_rows ? 128 : 0);
  return {rows, p.n, p.sums_over_rows() ? p.m : p.k, kind, p.a.alignment(), p.b.alignment(), p.c.alignment()};
}

/// Memory of the operands of a linear layer: x (rows, in), y (rows, out), w (out, in), and floats: bias (out), or null
/// where it is added apart.
struct LinearOperands {
  void *x = nullptr, *y = nullptr, *w = nullptr;
  float *d_w = nullptr, *bias = nullptr;
};

/// The products that layers ask for, of operands and results of type `type`: forward, with and without bias, gradient
/// of the input, new or added, and that of the weight, added. Rows of y are padded, as those of logits are.
inline std::vector<Matmul> linear_products(std::int64_t rows, std::int64_t in, std::int64_t out, core::DataType type,
                                           const LinearOperands& at) {
  const Matmul::Operand x{at.x, in, type, false}, y{at.y, padded_columns(out), type, false}, w{at.w, in, type, false};
  const auto turned = [](Matmul::Operand operand) {
    operand.turned = true;
    return operand;
  };
  const Matmul forward{.m = rows, .n = out, .k = in, .a = x, .b = turned(w), .c = y};
  const Matmul input{.m = rows, .n = in, .k = out, .a = y, .b = w, .c = x};
  std::vector<Matmul> all = {forward, input};
  if (at.bias != nullptr) {
    all.push_back(forward);
    all.back().bias = at.bias;
  }
  all.push_back(input);
  all.back().beta = 1;
  all.push_back({.m = out,
                 .n = in,
                 .k = rows,
                 .a = turned(y),
                 .b = x,
                 .c = {at.d_w, in, core::DataType::fp32, false},
                 .beta = 1});
  return all;
}

}  // namespace bert_hpc::ops
