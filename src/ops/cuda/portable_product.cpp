// The reference product on GPUs: every element is one dot product by one thread, whose order depends on nothing else.
#include "../kernel.hpp"
#include "cuda_products.hpp"

namespace bert_hpc::ops {

/// An operand as the product sees it: element (i, j) of op(x).
struct PortableOperand {
  const float* data;
  std::int64_t row, column;  // strides

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t i, std::int64_t j) const { return data[i * row + j * column]; }
};

// c = op(a)·op(b) + beta·c
void portable_gemm(const PortableOperand& a, const PortableOperand& b, std::int64_t m, std::int64_t n, std::int64_t k,
                   float beta, float* c, std::int64_t c_stride) {
  const PortableOperand left = a, right = b;
  kernel::for_elements(
      "bert_hpc::ops::portable_gemm", m, n, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        float sum = 0.0f;
        for (std::int64_t l = 0; l < k; ++l) sum += left(i, l) * right(l, j);
        float& result = c[i * c_stride + j];
        result = beta != 0.0f ? result + sum : sum;
      });
}

namespace {

class PortableProduct final : public GemmProduct {
 public:
  std::string name() const override { return "portable"; }
  bool rows_are_independent() const override { return true; }

 private:
  void gemm(Use use_a, Use use_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_stride,
            const float* b, std::int64_t b_stride, float beta, float* c, std::int64_t c_stride) override {
    const auto operand = [](Use use, const float* data, std::int64_t stride) {
      return use == Use::transposed ? PortableOperand{data, 1, stride} : PortableOperand{data, stride, 1};
    };
    portable_gemm(operand(use_a, a, a_stride), operand(use_b, b, b_stride), m, n, k, beta, c, c_stride);
  }
};

}  // namespace

std::unique_ptr<MatrixProduct> make_portable_product() {
  return std::make_unique<PortableProduct>();
}

}  // namespace bert_hpc::ops
