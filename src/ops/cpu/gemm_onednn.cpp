// Gemms through oneDNN's sgemm: row-major, sizes at run time, no compilation per shape, and the same call in versions
// 2.6 and 3.x (which describe primitives differently). The only file that includes oneDNN's headers.
#include "cpu_products.hpp"

#ifdef BERT_HPC_HAVE_ONEDNN
#include <dnnl.h>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#endif

namespace bert_hpc::ops {

#ifdef BERT_HPC_HAVE_ONEDNN
namespace {

class OneDnnProduct final : public GemmProduct {
 public:
  std::string name() const override {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }

 private:
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b, float beta,
            const Result& c) override {
    const core::CallScope call(core::DeviceCall::product, "dnnl_sgemm", work(m, n, k, a, b, beta, c));
    const core::DeviceAccess access;
    const auto letter = [](Use use) { return use == Use::transposed ? 'T' : 'N'; };
    const dnnl_status_t status =
        dnnl_sgemm(letter(a.use), letter(b.use), m, n, k, 1.0f, static_cast<const float*>(a.data), a.stride,
                   static_cast<const float*>(b.data), b.stride, beta, static_cast<float*>(c.data), c.stride);
    core::require(status == dnnl_success, "oneDNN's sgemm refused a product");
  }
};

}  // namespace

std::unique_ptr<MatrixProduct> make_onednn_product(const ProductSettings& settings) {
  return settings.compute == core::DataType::fp32 ? std::make_unique<OneDnnProduct>() : nullptr;
}
#else
std::unique_ptr<MatrixProduct> make_onednn_product(const ProductSettings&) {
  return nullptr;
}
#endif

}  // namespace bert_hpc::ops
