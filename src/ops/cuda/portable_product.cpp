// The reference gemm on GPUs: one thread computes each element as one dot product in float, in an order that depends
// only on the inner dimension.
#include "../kernel.hpp"
#include "cuda_products.hpp"

namespace bert_hpc::ops {

/// An operand of the gemm: element (i, j) of op(x), rounded to Read if it is stored in float but the computation is in
/// 16 bits.
template <class Stored, class Read>
struct PortableOperand {
  const Stored* data;
  std::int64_t row, column;  // strides

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t i, std::int64_t j) const {
    return static_cast<float>(Read(static_cast<float>(data[i * row + j * column])));
  }
};

// c = op(a)·op(b) + beta·c
template <class A, class B, class C>
void portable_gemm(const A& a, const B& b, std::int64_t m, std::int64_t n, std::int64_t k, float beta, C* c,
                   std::int64_t c_stride) {
  const A left = a;
  const B right = b;
  kernel::for_elements(
      {"bert_hpc::ops::portable_gemm",
       detail::product_work(m, n, k, sizeof *a.data, sizeof *b.data, sizeof(C), beta != 0.0f)},
      m, n, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        float sum = 0.0f;
        for (std::int64_t l = 0; l < k; ++l) sum += left(i, l) * right(l, j);
        C& result = c[i * c_stride + j];
        result = beta != 0.0f ? static_cast<float>(result) + sum : sum;
      });
}

namespace {

class PortableProduct final : public GemmProduct {
 public:
  using GemmProduct::GemmProduct;
  std::string name() const override { return "portable"; }
  bool rows_are_independent() const override { return true; }

 private:
  template <class Stored, class Read>
  static PortableOperand<Stored, Read> seen(const Operand& x) {
    const auto* data = static_cast<const Stored*>(x.data);
    if (x.use == Use::transposed) return {data, 1, x.stride};
    return {data, x.stride, 1};
  }

  /// Calls run(operand) with the operand as stored: in the type of the computation, or float.
  template <class Read, class Run>
  static void with_operand(const Operand& x, const Run& run) {
    if (x.type == core::DataType::fp32) {
      run(seen<float, Read>(x));
    } else {
      run(seen<Read, Read>(x));
    }
  }

  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b, float beta,
            const Result& c) override {
    core::with_type(compute(), [&]<class Read>() {
      with_operand<Read>(a, [&](const auto& left) {
        with_operand<Read>(b, [&](const auto& right) {
          if (c.type == core::DataType::fp32) {
            portable_gemm(left, right, m, n, k, beta, static_cast<float*>(c.data), c.stride);
          } else {
            portable_gemm(left, right, m, n, k, beta, static_cast<Read*>(c.data), c.stride);
          }
        });
      });
    });
  }
};

}  // namespace

std::unique_ptr<MatrixProduct> make_portable_product(const ProductSettings& settings) {
  return std::make_unique<PortableProduct>(settings.compute);
}

}  // namespace bert_hpc::ops
