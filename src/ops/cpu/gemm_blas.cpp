// Gemms through any library with the C interface of BLAS (OpenBLAS, BLIS, MKL, the reference). The only file that
// includes cblas.h.
#include "cpu_products.hpp"

#ifdef BERT_HPC_HAVE_CBLAS
#include <cblas.h>

#include <limits>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

// Defined by OpenBLAS only; null if another library is linked.
extern "C" char* openblas_get_config() __attribute__((weak));
#endif

namespace bert_hpc::ops {

#ifdef BERT_HPC_HAVE_CBLAS
namespace {

// Extents of cblas are int in the usual builds.
int narrow(std::int64_t value) {
  core::require(value <= std::numeric_limits<int>::max(), "matrix product: an extent is beyond what BLAS can count");
  return static_cast<int>(value);
}

class BlasProduct final : public GemmProduct {
 public:
  std::string name() const override {
    if (openblas_get_config == nullptr) return "BLAS";
    const std::string config = openblas_get_config();  // "OpenBLAS 0.3.21 DYNAMIC_ARCH …"
    return config.substr(0, config.find(' ', config.find(' ') + 1));
  }

 private:
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b, float beta,
            const Result& c) override {
    const core::CallScope call(core::DeviceCall::product, "cblas_sgemm", work(m, n, k, a, b, beta, c));
    const core::DeviceAccess access;
    const auto flag = [](Use use) { return use == Use::transposed ? CblasTrans : CblasNoTrans; };
    cblas_sgemm(CblasRowMajor, flag(a.use), flag(b.use), narrow(m), narrow(n), narrow(k), 1.0f,
                static_cast<const float*>(a.data), narrow(a.stride), static_cast<const float*>(b.data),
                narrow(b.stride), beta, static_cast<float*>(c.data), narrow(c.stride));
  }
};

}  // namespace

std::unique_ptr<MatrixProduct> make_blas_product(const ProductSettings& settings) {
  return settings.compute == core::DataType::fp32 ? std::make_unique<BlasProduct>() : nullptr;
}
#else
std::unique_ptr<MatrixProduct> make_blas_product(const ProductSettings&) {
  return nullptr;
}
#endif

}  // namespace bert_hpc::ops
