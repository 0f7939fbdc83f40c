// FP8 products that multiply on the host, for tests of rounding and transposing.
#pragma once

#include "../src/ops/fp8_byte_product.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::test {

namespace core = bert_hpc::core;
namespace ops = bert_hpc::ops;

/// 8-bit numbers multiplied here, in float as tensor cores do; where the host sees them.
class HostFp8Product : public ops::ByteFp8Product {
 public:
  using ByteFp8Product::ByteFp8Product;
  std::string name() const override { return "FP8 on the host"; }

 private:
  bool adds_bias(const ops::Fp8Matmul&) override { return true; }
  static float value(const ops::Fp8Matmul::Operand& x, std::int64_t row, std::int64_t k) {
    const std::uint8_t bits = x.data[row * x.stride + k];
    return x.format == core::Float8::e4m3 ? core::float_of_float8<core::Float8::e4m3>(bits)
                                          : core::float_of_float8<core::Float8::e5m2>(bits);
  }
  void multiply(const ops::Fp8Matmul& p) override {
    const core::DeviceAccess access;
    for (std::int64_t i = 0; i < p.m; ++i) {
      for (std::int64_t j = 0; j < p.n; ++j) {
        float sum = 0;
        for (std::int64_t k = 0; k < p.k; ++k) sum += value(p.a, i, k) * value(p.b, j, k);
        sum *= *p.a.inverse * *p.b.inverse;
        core::with_type(p.c.type, [&]<class T>() {
          T& c = p.c.as<T>()(i, j);
          const T* const bias = static_cast<const T*>(p.bias);
          c = T(p.beta * static_cast<float>(c) + sum + (bias != nullptr ? static_cast<float>(bias[j]) : 0.0f));
        });
      }
    }
  }
};

}  // namespace bert_hpc::test
