// Products by cuBLASLt: single precision as written (TF32 on request only), or of 16-bit operands with sums in single
// precision; row counts at run time.
//
// Biases are added by epilogues where how_bias_is_added() (matmul.hpp) says so, and the library has one. It has none
// for BERT's GELU: its own is the approximation by tanh, another function.
//
// The library wants both operands in one type. What is stored in float beside 16-bit operands (the gradients of logits,
// and weights that no copies are kept of) is rounded into scratch before its product.
#include <algorithm>
#include <cstdint>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/fusion.hpp"
#include "cublas_matmul.hpp"
#include "cuda_products.hpp"

namespace bert_hpc::ops {
namespace {

class CublasProduct final : public GemmProduct {
 public:
  explicit CublasProduct(const ProductSettings& settings)
      : GemmProduct(settings.compute),
        reproducible_(settings.reproducible),
        tf32_(settings.tf32 && settings.compute == core::DataType::fp32),
        weight_gradients_(settings.weight_gradients),
        matmul_(settings.reproducible, tf32_) {}

  std::string name() const override {
    const std::size_t version = cublasLtGetVersion();
    return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) +
           (tf32_ ? ", TF32" : "");
  }
  bool rows_are_independent() const override { return reproducible_; }

  /// Without a GPU (an estimate on a login node) it only returns the bytes.
  std::int64_t reserve(const ProductExtents& e) override {
    if (compute() != core::DataType::fp32) {
      const std::int64_t batch = e.rows * padded_columns(std::max(e.in, e.out));
      // Room for weights without copies: adapters, and weights that an FP8 product has rounded.
      const std::int64_t weight = e.out * padded_columns(e.in);
      rounded_elements_[0] = std::max(rounded_elements_[0], batch);
      rounded_elements_[1] = std::max({rounded_elements_[1], weight, batch});
    }
    if (core::DeviceRuntime::missing_device().empty()) prepare();
    return static_cast<std::int64_t>(CublasMatmul::workspace_bytes) +
           core::bytes_of(compute()) * (rounded_elements_[0] + rounded_elements_[1]);
  }

  /// Tries the products of full micro-batches and smaller ones.
  void tune(const ProductExtents& e) override {
    if (reproducible_ || e.rows == 0 || !core::DeviceRuntime::missing_device().empty()) return;
    prepare();
    const std::int64_t width = core::bytes_of(compute());
    const std::int64_t weights = e.series * e.in * e.out;
    const core::Buffer<unsigned char> x(e.rows * e.series * e.in * width),
        y(e.rows * padded_columns(e.series * e.out) * width), w(weights * width), bias(e.out * width);
    const core::Buffer<float> d_w(weights), d_bias(e.out);
    for (const auto* buffer : {&x, &y, &w, &bias}) {  // small numbers, in any type
      core::fill_on_device(buffer->data(), 0x3C, static_cast<std::size_t>(buffer->size()));
    }
    LinearOperands at{.x = x.data(), .y = y.data(), .w = w.data(), .d_w = d_w.data()};
    if (how(compute(), true) != BiasAdded::by_kernel && e.series == 1) at.bias = bias.data();
    at.d_w_type = weight_gradients_;
    if (sums_in_epilogue() && e.series == 1) at.d_bias = d_bias.data();
    for (const std::int64_t bucket : buckets_to_try(e.rows)) {
      for (const Matmul& product : linear_products(std::min(bucket, e.rows), e.in, e.out, compute(), at, e.series)) {
        matmul_.tune(product);
      }
    }
    core::wait_for_kernels();
  }

  /// A bias that the library adds leaves a kernel with the activation alone; otherwise one kernel does both.
  void forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) override {
    const Matrix sum = epilogue.sum(y);
    detail::require_product_shapes(compute(), x, w, sum);
    const bool activated = epilogue.activation != Activation::none;
    epilogue_bias_ = epilogue_bias(epilogue.bias, sum);
    if (activated && epilogue_bias_ == nullptr) return GemmProduct::forward(x, w, epilogue, y);
    bias_ = epilogue.bias;
    GemmProduct::forward(x, w, {}, sum);
    bias_ = nullptr;
    epilogue_bias_ = nullptr;
    if (activated) activate(epilogue, y);
  }

  /// An epilogue replaces the bias' gradient and reads d_y in the type of the product.
  void backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) override {
    const bool fused = sums_in_epilogue() && d_bias != nullptr && write == Write::replace && d_y.type == compute() &&
                       d_w.type == core::DataType::fp32 && d_y.rows > 0;
    if (fused) column_sums_ = d_bias;
    GemmProduct::backward_weight(d_y, x, d_w, fused ? nullptr : d_bias, write);
    column_sums_ = nullptr;
  }

  void forward_series(const ProductSeries& series, float factor, ConstMatrix x, Tensor<const float> w,
                      Matrix y) override {
    if (!in_one_call(series, x, read(w))) return MatrixProduct::forward_series(series, factor, x, w, y);
    series_ = {series.count, factor, series.x, series.w, series.y};
    GemmProduct::forward(x, w, {}, y);
    series_ = {};
  }

  void backward_input_series(const ProductSeries& series, ConstMatrix d_y, Tensor<const float> w, Matrix d_x,
                             Write write) override {
    if (!in_one_call(series, d_y, read(w))) return MatrixProduct::backward_input_series(series, d_y, w, d_x, write);
    series_ = {series.count, 1, series.y, series.w, series.x};
    GemmProduct::backward_input(d_y, w, d_x, write);
    series_ = {};
  }

  void backward_weight_series(const ProductSeries& series, ConstMatrix d_y, ConstMatrix x, Matrix d_w,
                              Write write) override {
    if (!in_one_call(series, d_y, x) || d_y.rows == 0) {
      return MatrixProduct::backward_weight_series(series, d_y, x, d_w, write);
    }
    series_ = {series.count, 1, series.y, series.x, series.w};
    GemmProduct::backward_weight(d_y, x, d_w, nullptr, write);
    series_ = {};
  }

 private:
  /// Whether one call may compute a series: there is no scratch for several operands that have to be rounded.
  bool in_one_call(const ProductSeries& series, const ConstMatrix& a, const ConstMatrix& b) const {
    return series.count == 1 || (a.type == compute() && b.type == compute());
  }

  BiasAdded how(core::DataType result, bool copied) const {
    return how_bias_is_added(compute(), result, copied, reproducible_, fusion().biases);
  }
  bool sums_in_epilogue() const {
    // The library adds them up in the type of the product's result.
    return compute() != core::DataType::fp32 && weight_gradients_ == core::DataType::fp32 && !reproducible_ &&
           fusion().bias_gradients;
  }

  /// What an epilogue would add to y; null if the bias is added to the stored result, or is null.
  const void* epilogue_bias(const float* bias, const Matrix& y) {
    if (bias == nullptr) return nullptr;
    const ConstMatrix copy = read(Tensor<const float>(bias, 1, y.columns));
    switch (how(y.type, copy.type != core::DataType::fp32)) {
      case BiasAdded::in_epilogue:
        return bias;
      case BiasAdded::rounded_in_epilogue:
        return copy.data;
      case BiasAdded::by_kernel:
        break;
    }
    return nullptr;
  }

  void prepare() {
    for (int i = 0; i < 2; ++i) {
      if (rounded_[i].size() >= rounded_elements_[i]) continue;
      rounded_[i] = core::Buffer<std::uint16_t>();  // the old before the new
      rounded_[i] = core::Buffer<std::uint16_t>(rounded_elements_[i]);
    }
    matmul_.prepare();
  }

  /// An operand, stored as (rows, columns), in the type of the computation; the second of a product in the second
  /// scratch.
  Matmul::Operand prepared(const Operand& x, std::int64_t rows, std::int64_t columns, int scratch) {
    const bool transposed = x.use == Use::transposed;
    // A matrix of one row may have any stride; the library wants one that fits.
    const std::int64_t stride = std::max(x.stride, columns);
    if (x.type == compute()) return {const_cast<void*>(x.data), stride, x.type, transposed};
    const std::int64_t padded = padded_columns(columns);
    core::require(rows * padded <= rounded_[scratch].size(), "matrix product: an operand is larger than was reserved");
    const Matrix to(rounded_[scratch].data(), rows, columns, padded, compute());
    copy(ConstMatrix(x.data, rows, columns, stride, x.type), to);
    return {to.data, padded, compute(), transposed};
  }

  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& a, const Operand& b, float beta,
            const Result& c) override {
    prepare();
    const bool a_transposed = a.use == Use::transposed, b_transposed = b.use == Use::transposed;
    Matmul product{.m = m,
                   .n = n,
                   .k = k,
                   .a = prepared(a, a_transposed ? k : m, a_transposed ? m : k, 0),
                   .b = prepared(b, b_transposed ? n : k, b_transposed ? k : n, 1),
                   .c = {c.data, std::max(c.stride, n), c.type, false},
                   .beta = beta,
                   .alpha = series_.factor,
                   .count = series_.count,
                   .bias = epilogue_bias_,
                   .sums_of_a = column_sums_};
    product.a.step = series_.a;
    product.b.step = series_.b;
    product.c.step = series_.c;
    if (product.has_epilogue() && !matmul_.offers(product)) {
      product.bias = nullptr;
      product.sums_of_a = nullptr;
    }
    if (column_sums_ != nullptr && product.sums_of_a == nullptr) {
      column_sums(ConstMatrix(a.data, k, m, a.stride, a.type), column_sums_, Write::replace);
    }
    matmul_.run(product);
    if (bias_ != nullptr && product.bias == nullptr) add_bias(Matrix(c.data, m, n, c.stride, c.type), bias_);
  }

  bool reproducible_, tf32_;
  core::DataType weight_gradients_;
  CublasMatmul matmul_;
  // The product under way, or null: its bias, what an epilogue adds of it, and where one puts the bias' gradient.
  const float* bias_ = nullptr;
  const void* epilogue_bias_ = nullptr;
  float* column_sums_ = nullptr;
  // The gemms under way: their number, their factor, and the steps of their operands.
  struct Series {
    std::int64_t count = 1;
    float factor = 1;
    std::int64_t a = 0, b = 0, c = 0;
  } series_;
  // Operands that are rounded: the first of a product (a batch), and the second (weights, or a batch).
  core::Buffer<std::uint16_t> rounded_[2];
  std::int64_t rounded_elements_[2] = {};
};

}  // namespace

std::unique_ptr<MatrixProduct> make_cublas_product(const ProductSettings& settings) {
  return std::make_unique<CublasProduct>(settings);
}

}  // namespace bert_hpc::ops
