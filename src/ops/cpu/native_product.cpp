// The gemms written for this project: the forms of a linear layer as blocked gemms, on the best instruction set of the
// processor. They offer three things that libraries lack and training of small models needs: rows whose bits are
// independent of other rows, epilogues on tiles in registers, and speed at a few hundred rows.
#include <omp.h>

#include <algorithm>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "blocked_product.hpp"
#include "cpu_products.hpp"

namespace bert_hpc::ops {
namespace {

using cpu::BlockedProduct;

class NativeProduct final : public MatrixProduct {
 public:
  NativeProduct(const cpu::TileKernels& kernels, const ProductSettings& settings)
      : MatrixProduct(settings.compute),
        kernels_(kernels),
        rounds_gradients_(settings.weight_gradients != core::DataType::fp32) {}

  std::string name() const override { return "native (" + std::string(kernels_.name) + ")"; }
  bool rows_are_independent() const override { return true; }

  std::int64_t reserve(const ProductExtents& e) override {
    const std::int64_t threads = omp_get_max_threads();
    const std::int64_t needed = std::max({scratch_floats(e.rows, e.out, e.in, false, threads),
                                          scratch_floats(e.rows, e.in, e.out, false, threads),
                                          scratch_floats(e.out, e.in, e.rows, true, threads)});
    if (needed > scratch_.size()) scratch_ = core::Buffer<float>(needed, core::MemoryKind::host);
    if (rounds() && threads > threads_) {
      blocks_ = core::Buffer<float>(threads * cpu::block_floats(kernels_), core::MemoryKind::host);
      threads_ = threads;
    }
    if (rounds_gradients_ && e.out * e.in > gradient_.size()) gradient_ = core::Buffer<float>(e.out * e.in);
    return (scratch_.size() + blocks_.size() + gradient_.size()) * static_cast<std::int64_t>(sizeof(float));
  }

  void forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) override {
    if (epilogue.activation == Activation::none) return run(forward_product(x, w, epilogue.bias, y));
    const Matrix& pre = epilogue.pre;
    detail::require_product_shapes(compute(), x, w, y);
    if (epilogue.activation != Activation::gelu) {
      run(forward_product(x, w, epilogue.bias, pre));
      return activate(epilogue, y);
    }
    core::require(pre.type == y.type, "matrix product: results of two types");
    BlockedProduct p = forward_product(x, w, epilogue.bias, pre);
    p.end = cpu::End::gelu;
    p.second = y.data;
    p.second_stride = y.stride;
    run(p);
  }

  void backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, const InputEpilogue& epilogue) override {
    if (epilogue.activation == Activation::none) return run(backward_product(d_y, w, d_x, epilogue.write));
    const ConstMatrix& pre = epilogue.pre;
    detail::require_product_shapes(compute(), pre, w, d_y);
    if (epilogue.activation != Activation::gelu) {
      run(backward_product(d_y, w, d_x, Write::replace));
      return finish(epilogue, d_x);
    }
    core::require(pre.type == d_x.type, "matrix product: a GELU and its gradient of two types");
    BlockedProduct p = backward_product(d_y, w, d_x, Write::replace);
    p.end = cpu::End::gelu_slope;
    p.second = const_cast<void*>(pre.data);  // gelu_slope only reads it
    p.second_stride = pre.stride;
    run(p);
  }

  void backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) override {
    detail::require_weight_gradient(compute(), x, d_w, d_y, write);
    // The inner dimension is split into steps, each of which would round a 16-bit result.
    if (d_w.type != core::DataType::fp32 && x.rows > 0) {
      core::require(d_w.size() <= gradient_.size(), "matrix product: a gradient is larger than what was reserved");
      const Tensor<float> whole(gradient_.data(), d_w.rows, d_w.columns);
      backward_weight(d_y, x, whole, d_bias, write);
      return copy(whole, d_w);
    }
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
  bool rounds() const { return compute() != core::DataType::fp32; }

  std::int64_t scratch_floats(std::int64_t m, std::int64_t n, std::int64_t k, bool a_transposed,
                              std::int64_t threads) const {
    return cpu::scratch_floats(kernels_, m, n, k, a_transposed, rounds(), threads);
  }

  /// The storage form of an operand; if the computation is in 16 bits, floats are rounded when read.
  cpu::Source source(const ConstMatrix& x) const {
    if (x.type != core::DataType::fp32 || !rounds()) return cpu::source_of(x.type);
    return compute() == core::DataType::bf16 ? cpu::Source::fp32_as_bf16 : cpu::Source::fp32_as_fp16;
  }

  BlockedProduct operands(const ConstMatrix& a, const ConstMatrix& b, const Matrix& c) const {
    BlockedProduct p;
    p.a_source = source(a);
    p.b_source = source(b);
    p.c_source = cpu::source_of(c.type);
    p.a = a.data;
    p.a_stride = a.stride;
    p.b = b.data;
    p.b_stride = b.stride;
    p.c = c.data;
    p.c_stride = c.stride;
    return p;
  }

  BlockedProduct forward_product(ConstMatrix x, Tensor<const float> w, const float* bias, Matrix y) {
    detail::require_product_shapes(compute(), x, w, y);
    BlockedProduct p = operands(x, read(w), y);
    p.m = y.rows;
    p.n = y.columns;
    p.k = x.columns;
    p.b_transposed = true;
    p.begin = bias != nullptr ? cpu::Begin::bias : cpu::Begin::zero;
    p.bias = bias;
    return p;
  }

  BlockedProduct backward_product(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, Write write) {
    detail::require_product_shapes(compute(), d_x, w, d_y);
    BlockedProduct p = operands(d_y, read(w), d_x);
    p.m = d_x.rows;
    p.n = d_x.columns;
    p.k = d_y.columns;
    p.begin = write == Write::accumulate ? cpu::Begin::existing : cpu::Begin::zero;
    return p;
  }

  static core::CallWork work_of(const BlockedProduct& p) {
    core::CallWork work = detail::product_work(p.m, p.n, p.k, cpu::bytes_of(p.a_source), cpu::bytes_of(p.b_source),
                                               cpu::bytes_of(p.c_source), p.begin == cpu::Begin::existing);
    if (p.second != nullptr) work.bytes += static_cast<double>(cpu::bytes_of(p.c_source) * p.m * p.n);
    return work;
  }

  void run(const BlockedProduct& p) {
    const core::CallScope call(core::DeviceCall::product, "native product", work_of(p));
    if (p.m == 0) return;
    core::require(scratch_floats(p.m, p.n, p.k, p.a_transposed, 1) <= scratch_.size(),
                  "matrix product: a product is larger than what was reserved");
    for (const void* operand : {p.a, p.b, static_cast<const void*>(p.c), static_cast<const void*>(p.second),
                                static_cast<const void*>(p.bias), static_cast<const void*>(p.a_sums)}) {
      core::require_device_memory(operand, "matrix product");
    }
    const core::DeviceAccess access;
    cpu::run(kernels_, p, {scratch_.data(), scratch_.size(), blocks_.data(), threads_});
  }

  const cpu::TileKernels& kernels_;
  bool rounds_gradients_;
  core::Buffer<float> scratch_, blocks_;
  core::Buffer<float> gradient_;  // weight gradient before rounding
  std::int64_t threads_ = 0;      // number of threads that blocks_ is sized for
};

}  // namespace

bool native_product_is_tuned() {
  return cpu::widest_instruction_set() != cpu::InstructionSet::baseline;
}

std::unique_ptr<MatrixProduct> make_native_product(const ProductSettings& settings) {
  return std::make_unique<NativeProduct>(cpu::kernels_of(cpu::widest_instruction_set(), settings.compute), settings);
}

std::unique_ptr<MatrixProduct> make_portable_product(const ProductSettings& settings) {
  return std::make_unique<NativeProduct>(cpu::kernels_of(cpu::InstructionSet::baseline, settings.compute), settings);
}

}  // namespace bert_hpc::ops
