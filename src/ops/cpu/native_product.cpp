// The matrix products written for this project: the forms of a linear layer as blocked products, on the best
// instruction set that the processor has. They exist because libraries lack three things that training small models
// needs: rows whose bits depend on nothing else, epilogues on tiles in registers, and speed at a few hundred rows.
#include <omp.h>

#include <algorithm>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "blocked_product.hpp"
#include "cpu_products.hpp"

namespace bert_hpc::ops {
namespace {

using cpu::BlockedProduct;

const cpu::TileKernels& best_tile_kernels() {
#if defined(BERT_HPC_X86_KERNELS)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    return cpu::x86_64_v4::tile_kernels();
  }
  if (avx2) return cpu::x86_64_v3::tile_kernels();
#endif
  return cpu::baseline::tile_kernels();
}

class NativeProduct final : public MatrixProduct {
 public:
  explicit NativeProduct(const cpu::TileKernels& kernels) : kernels_(kernels) {}

  std::string name() const override { return "native (" + std::string(kernels_.name) + ")"; }
  bool rows_are_independent() const override { return true; }

  std::int64_t reserve(const ProductExtents& e) override {
    const std::int64_t threads = omp_get_max_threads();
    const std::int64_t needed = std::max({cpu::scratch_floats(kernels_, e.rows, e.out, e.in, false, threads),
                                          cpu::scratch_floats(kernels_, e.rows, e.in, e.out, false, threads),
                                          cpu::scratch_floats(kernels_, e.out, e.in, e.rows, true, threads)});
    if (needed > scratch_.size()) scratch_ = core::Buffer<float>(needed, core::MemoryKind::host);
    return scratch_.size() * static_cast<std::int64_t>(sizeof(float));
  }

  void forward(Tensor<const float> x, Tensor<const float> w, const float* bias, Tensor<float> y) override {
    run(forward_product(x, w, bias, y));
  }

  void forward_gelu(Tensor<const float> x, Tensor<const float> w, const float* bias, Tensor<float> pre,
                    Tensor<float> y) override {
    detail::require_product_shapes(x, w, y);
    BlockedProduct p = forward_product(x, w, bias, pre);
    p.end = cpu::End::gelu;
    p.second = y.data;
    p.second_stride = y.stride;
    run(p);
  }

  void backward_input(Tensor<const float> d_y, Tensor<const float> w, Tensor<float> d_x, Write write) override {
    run(backward_product(d_y, w, d_x, write));
  }

  void backward_input_gelu(Tensor<const float> d_y, Tensor<const float> w, Tensor<const float> pre,
                           Tensor<float> d_pre) override {
    detail::require_product_shapes(pre, w, d_y);
    BlockedProduct p = backward_product(d_y, w, d_pre, Write::replace);
    p.end = cpu::End::gelu_slope;
    p.second = const_cast<float*>(pre.data);  // gelu_slope only reads it
    p.second_stride = pre.stride;
    run(p);
  }

  void backward_weight(Tensor<const float> d_y, Tensor<const float> x, Tensor<float> d_w, float* d_bias,
                       Write write) override {
    detail::require_product_shapes(x, d_w, d_y);
    if (x.rows == 0) {
      if (write == Write::accumulate) return;
      detail::set_zero_rows(d_w);
      if (d_bias != nullptr) core::fill_on_device(d_bias, 0, static_cast<std::size_t>(d_w.rows) * sizeof(float));
      return;
    }
    BlockedProduct p = operands(d_y, x, d_w);
    p.m = d_w.rows;
    p.n = d_w.columns;
    p.k = x.rows;
    p.a_transposed = true;
    p.begin = write == Write::accumulate ? cpu::Begin::existing : cpu::Begin::zero;
    p.a_sums = d_bias;
    run(p);
  }

 private:
  static BlockedProduct operands(Tensor<const float> a, Tensor<const float> b, Tensor<float> c) {
    BlockedProduct p;
    p.a = a.data;
    p.a_stride = a.stride;
    p.b = b.data;
    p.b_stride = b.stride;
    p.c = c.data;
    p.c_stride = c.stride;
    return p;
  }

  static BlockedProduct forward_product(Tensor<const float> x, Tensor<const float> w, const float* bias,
                                        Tensor<float> y) {
    detail::require_product_shapes(x, w, y);
    BlockedProduct p = operands(x, w, y);
    p.m = y.rows;
    p.n = y.columns;
    p.k = x.columns;
    p.b_transposed = true;
    p.begin = bias != nullptr ? cpu::Begin::bias : cpu::Begin::zero;
    p.bias = bias;
    return p;
  }

  static BlockedProduct backward_product(Tensor<const float> d_y, Tensor<const float> w, Tensor<float> d_x,
                                         Write write) {
    detail::require_product_shapes(d_x, w, d_y);
    BlockedProduct p = operands(d_y, w, d_x);
    p.m = d_x.rows;
    p.n = d_x.columns;
    p.k = d_y.columns;
    p.begin = write == Write::accumulate ? cpu::Begin::existing : cpu::Begin::zero;
    return p;
  }

  void run(const BlockedProduct& p) {
    if (p.m == 0) return;
    core::require(cpu::scratch_floats(kernels_, p.m, p.n, p.k, p.a_transposed, 1) <= scratch_.size(),
                  "matrix product: a product is larger than what was reserved");
    for (const float* operand : {p.a, p.b, static_cast<const float*>(p.c), static_cast<const float*>(p.second), p.bias,
                                 static_cast<const float*>(p.a_sums)}) {
      core::require_device_memory(operand, "matrix product");
    }
    const core::DeviceAccess access;
    cpu::run(kernels_, p, scratch_.data(), scratch_.size());
  }

  const cpu::TileKernels& kernels_;
  core::Buffer<float> scratch_;
};

}  // namespace

bool native_product_is_tuned() {
  return &best_tile_kernels() != &cpu::baseline::tile_kernels();
}

std::unique_ptr<MatrixProduct> make_native_product() {
  return std::make_unique<NativeProduct>(best_tile_kernels());
}

std::unique_ptr<MatrixProduct> make_portable_product() {
  return std::make_unique<NativeProduct>(cpu::baseline::tile_kernels());
}

}  // namespace bert_hpc::ops
