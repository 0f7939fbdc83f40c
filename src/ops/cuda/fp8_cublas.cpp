// FP8 gemms by cuBLASLt, on Ada, Hopper and later. The library multiplies by the values at the scale pointers of its
// operands: the inverses of the scales used for rounding. Sums of gradients are in float; those of forward products use
// the faster accumulation of fewer bits (CUBLASLT_MATMUL_DESC_FAST_ACCUM). cublas_matmul.cpp has how algorithms are
// chosen.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <string>

#include "../../core/cuda/check_cuda.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fusion.hpp"
#include "cublas_matmul.hpp"
#include "fp8_matmul.hpp"

namespace bert_hpc::ops {
namespace {

class CublasFp8Product final : public ByteFp8Product {
 public:
  CublasFp8Product(MatrixProduct& rounded, const std::vector<Fp8Layer>& layers, const Fp8Settings& settings)
      : ByteFp8Product(rounded, layers, settings.allocates),
        reproducible_(settings.reproducible),
        weight_gradients_(settings.weight_gradients),
        matmul_(settings.reproducible) {}
  std::string name() const override { return "cuBLASLt in FP8"; }

  /// Tries the products of full micro-batches and smaller ones.
  void tune(const ProductExtents& e) override {
    if (reproducible_ || e.rows == 0 || !core::DeviceRuntime::missing_device().empty()) return;
    const std::int64_t rows = padded_rows(e.rows), widest = std::max(e.in, e.out);
    const core::Buffer<std::uint8_t> x(rows * widest), d_y(rows * widest), w(e.in * e.out);
    const core::Buffer<core::Bf16> y(rows * widest), bias(e.out);
    const core::Buffer<float> d_w(e.in * e.out), inverse(fp8_inverse_stride);
    for (const auto* buffer : {&x, &d_y, &w}) {  // numbers near one
      core::fill_on_device(buffer->data(), 0x3C, static_cast<std::size_t>(buffer->size()));
    }
    core::fill_on_device(bias.data(), 0x3C, static_cast<std::size_t>(e.out) * sizeof(core::Bf16));
    const Fp8LinearOperands at{.x = x.data(),
                               .d_y = d_y.data(),
                               .w = w.data(),
                               .y = y.data(),
                               .d_w = d_w.data(),
                               .inverse = inverse.data(),
                               .bias = bias.data(),
                               .d_w_type = weight_gradients_};
    for (const std::int64_t bucket : buckets_to_try(rows)) {
      for (const Matmul& product : fp8_products(std::min(bucket, rows), e.in, e.out, at)) matmul_.tune(product);
    }
    core::wait_for_kernels();
  }

 private:
  std::int64_t reserve_rounded(const ProductExtents& largest) override {
    if (allocates()) matmul_.prepare();
    return ByteFp8Product::reserve_rounded(largest) + static_cast<std::int64_t>(CublasMatmul::workspace_bytes);
  }

  bool adds_bias(const Fp8Matmul& product) override {
    const BiasAdded how = how_bias_is_added(core::DataType::bf16, product.c.type, true, reproducible_, fusion().biases);
    const Matmul call = call_of(product);
    return how == BiasAdded::rounded_in_epilogue && refused(call) == nullptr && matmul_.offers(call);
  }

  void multiply(const Fp8Matmul& product) override {
    const Matmul call = call_of(product);
    if (const char* reason = refused(call)) {
      throw core::Error(core::ExitCode::internal, std::string("FP8 product: cuBLASLt refuses ") + reason + ".");
    }
    matmul_.run(call);
  }

  bool reproducible_;
  core::DataType weight_gradients_;
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
