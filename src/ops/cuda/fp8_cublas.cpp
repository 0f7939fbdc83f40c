// FP8 gemms by cuBLASLt, on Ada, Hopper and later. The library multiplies by the values at the scale pointers of its
// operands: the inverses of the scales used for rounding. Sums are in float: the faster, less accurate accumulation
// (CUBLASLT_MATMUL_DESC_FAST_ACCUM) is off, which is also the default. Algorithms are the library's first suggestions
// for the actual number of rows, or for any number of rows in reproducible mode.
#include <cuda_runtime_api.h>

#include "../../core/cuda/check_cuda.hpp"
#include "../fp8_byte_product.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "cublas_matmul.hpp"

namespace bert_hpc::ops {
namespace {

class CublasFp8Product final : public ByteFp8Product {
 public:
  CublasFp8Product(MatrixProduct& rounded, const std::vector<Fp8Layer>& layers, const Fp8Settings& settings)
      : ByteFp8Product(rounded, layers, settings.allocates), matmul_(settings.reproducible) {}
  std::string name() const override { return "cuBLASLt in FP8"; }

 private:
  static Matmul::Operand operand(const Fp8Matmul::Operand& x, bool turned) {
    return {.data = const_cast<std::uint8_t*>(x.data),
            .stride = x.stride,
            .turned = turned,
            .eight = x.format,
            .inverse = x.inverse};
  }

  std::int64_t reserve_rounded(const ProductExtents& largest) override {
    if (allocates()) matmul_.prepare();
    return ByteFp8Product::reserve_rounded(largest) + static_cast<std::int64_t>(CublasMatmul::workspace_bytes);
  }

  void multiply(const Fp8Matmul& p) override {
    matmul_.run({.m = p.m,
                 .n = p.n,
                 .k = p.k,
                 .a = operand(p.a, false),
                 .b = operand(p.b, true),
                 .c = {.data = p.c.data, .stride = p.c.stride, .type = p.c.type},
                 .beta = p.beta,
                 .sums_over_padded_rows = p.sums_over_rows});
  }

  CublasMatmul matmul_;
};

/// Without a GPU (an estimate on a login node) assumes a GPU that supports FP8.
bool device_multiplies_fp8() {
  if (!core::DeviceRuntime::missing_device().empty()) return true;
  int device = 0, major = 0, minor = 0;
  const bool known = cudaGetDevice(&device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
                     cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess;
  if (!known) core::clear_last_error();  // other gemms are then used
  return known && 10 * major + minor >= 89;
}

}  // namespace

std::unique_ptr<Fp8Product> make_device_fp8_product(MatrixProduct& rounded, const std::vector<Fp8Layer>& layers,
                                                    const Fp8Settings& settings) {
  if (!device_multiplies_fp8()) return nullptr;
  return std::make_unique<CublasFp8Product>(rounded, layers, settings);
}

}  // namespace bert_hpc::ops
