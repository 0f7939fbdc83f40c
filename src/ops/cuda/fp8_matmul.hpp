// FP8 gemms as a library's gemm calls, and what cuBLASLt demands of such calls before Blackwell (CUDA 13's manual on
// cublasLtMatmul(), "narrow precisions"): no other description of one leaves this program.
#pragma once

#include "../fp8_byte_product.hpp"
#include "matmul.hpp"

namespace bert_hpc::ops {

/// c = a·bᵀ: a as it is stored, b transposed.
inline Matmul call_of(const Fp8Matmul& p) {
  const auto operand = [](const Fp8Matmul::Operand& x, bool transposed) {
    return Matmul::Operand{.data = const_cast<std::uint8_t*>(x.data),
                           .stride = x.stride,
                           .transposed = transposed,
                           .eight = x.format,
                           .inverse = x.inverse};
  };
  return {.m = p.m,
          .n = p.n,
          .k = p.k,
          .a = operand(p.a, false),
          .b = operand(p.b, true),
          .c = {.data = p.c.data, .stride = p.c.stride, .type = p.c.type},
          .beta = p.beta,
          .bias = p.bias,
          .sums_over_padded_rows = p.sums_over_rows,
          .fast_sums = p.fast_sums};
}

/// What cuBLASLt would refuse in a gemm of 8-bit operands; null if nothing. m may be any number: rows of the batch are
/// columns in the library's terms, of which PyTorch's _scaled_mm gives it any number, too.
inline const char* refused(const Matmul& p) {
  constexpr std::int64_t unit = fp8_granularity;
  const auto aligned = [](const void* address) { return reinterpret_cast<std::uintptr_t>(address) % 16 == 0; };
  if (!p.a.eight || !p.b.eight) return "operands that are not both of 8 bits";
  if (p.a.eight == core::Float8::e5m2 && p.b.eight == core::Float8::e5m2) return "two operands in E5M2";
  if (p.a.transposed || !p.b.transposed) return "operands whose inner dimension is not contiguous";
  if (p.m < 1 || p.n < 1 || p.k < 1) return "no elements";
  if (p.n % unit != 0 || p.k % unit != 0) return "columns that are no multiple of 16";
  if (p.a.stride % unit != 0 || p.b.stride % unit != 0 || p.a.stride < p.k || p.b.stride < p.k) {
    return "rows of operands at no multiple of 16 bytes";
  }
  if (p.c.alignment() != 16 || p.c.stride < p.n || p.c.transposed || p.c.eight) return "a result that is not aligned";
  for (const void* address : {static_cast<const void*>(p.a.data), static_cast<const void*>(p.b.data),
                              static_cast<const void*>(p.a.inverse), static_cast<const void*>(p.b.inverse)}) {
    if (address == nullptr || !aligned(address)) return "an operand or a scale that is not aligned to 16 bytes";
  }
  if (p.sums_of_a != nullptr) return "an epilogue that adds up an operand";
  if (p.bias != nullptr && (p.c.type == core::DataType::fp32 || !aligned(p.bias))) {
    return "a bias that is not aligned to 16 bytes, or of a result in float";
  }
  return nullptr;
}

/// Memory of the 8-bit gemms of a linear layer: x and d_y of a batch, as they are or transposed, w, result and
/// inverses.
struct Fp8LinearOperands {
  std::uint8_t *x = nullptr, *d_y = nullptr, *w = nullptr;
  void* y = nullptr;  ///< bf16
  void* d_w = nullptr;
  const float* inverse = nullptr;
  const void* bias = nullptr;                      ///< bf16; null if no epilogue adds it
  core::DataType d_w_type = core::DataType::fp32;  ///< where it is replaced
};

/// The 8-bit gemms of a linear layer: forward, with and without bias; gradient of the input, replaced or added to;
/// gradient of the weight, replaced or added to.
inline std::vector<Matmul> fp8_products(std::int64_t rows, std::int64_t in, std::int64_t out,
                                        const Fp8LinearOperands& at) {
  using core::Float8;
  const std::int64_t sums = padded_rows(rows);
  const auto operand = [&at](std::uint8_t* data, std::int64_t stride, Float8 format) {
    return Fp8Matmul::Operand{data, stride, format, at.inverse};
  };
  const auto result = [&at](std::int64_t m, std::int64_t n) { return Matrix(at.y, m, n, n, core::DataType::bf16); };
  std::vector<Fp8Matmul> all = {
      {.m = rows,
       .n = out,
       .k = in,
       .a = operand(at.x, in, Float8::e4m3),
       .b = operand(at.w, in, Float8::e4m3),
       .c = result(rows, out),
       .fast_sums = true},
      {.m = rows,
       .n = in,
       .k = out,
       .a = operand(at.d_y, out, Float8::e5m2),
       .b = operand(at.w, out, Float8::e4m3),
       .c = result(rows, in)},
      {.m = out,
       .n = in,
       .k = sums,
       .a = operand(at.d_y, sums, Float8::e5m2),
       .b = operand(at.x, sums, Float8::e4m3),
       .c = Matrix(at.d_w, out, in, in, at.d_w_type),
       .sums_over_rows = true},
  };
  for (const std::size_t i : {1, 2}) {
    all.push_back(all[i]);
    all.back().beta = 1;
  }
  all.back().c = Matrix(at.d_w, out, in, in, core::DataType::fp32);
  if (at.bias != nullptr) {
    all.push_back(all[0]);
    all.back().bias = at.bias;
  }
  std::vector<Matmul> products;
  for (const Fp8Matmul& product : all) products.push_back(call_of(product));
  return products;
}

}  // namespace bert_hpc::ops
