// Products by any library with the C interface of BLAS (OpenBLAS, BLIS, MKL, the reference). The only file that sees
// cblas.h.
#include "cpu_products.hpp"

#ifdef BERT_HPC_HAVE_CBLAS
#include <cblas.h>

#include <limits>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#endif

namespace bert_hpc::ops {

#ifdef BERT_HPC_HAVE_CBLAS
namespace {

// Extents of cblas are int in the common builds.
int narrow(std::int64_t value) {
  core::require(value <= std::numeric_limits<int>::max(), "matrix product: an extent is beyond what BLAS can count");
  return static_cast<int>(value);
}

class BlasProduct final : public GemmProduct {
 public:
  std::string name() const override { return "BLAS"; }

 private:
  void gemm(Use use_a, Use use_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_stride,
            const float* b, std::int64_t b_stride, float beta, float* c, std::int64_t c_stride) override {
    const core::DeviceAccess access;
    const auto flag = [](Use use) { return use == Use::transposed ? CblasTrans : CblasNoTrans; };
    cblas_sgemm(CblasRowMajor, flag(use_a), flag(use_b), narrow(m), narrow(n), narrow(k), 1.0f, a, narrow(a_stride), b,
                narrow(b_stride), beta, c, narrow(c_stride));
  }
};

}  // namespace

std::unique_ptr<MatrixProduct> make_blas_product() {
  return std::make_unique<BlasProduct>();
}
#else
std::unique_ptr<MatrixProduct> make_blas_product() {
  return nullptr;
}
#endif

}  // namespace bert_hpc::ops
