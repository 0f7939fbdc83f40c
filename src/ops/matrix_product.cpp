// The choice among the back ends, and the products of a linear layer for those that are a plain GEMM.
#include "bert_hpc/ops/matrix_product.hpp"

#include <string>
#include <string_view>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "gemm.hpp"

namespace bert_hpc::ops {
namespace detail {

void require_product_shapes(core::DataType compute, const ConstMatrix& x, const ConstMatrix& w, const ConstMatrix& y) {
  core::require(x.columns >= 1 && y.columns >= 1, "matrix product: a layer without inputs or outputs");
  core::require(x.rows == y.rows && x.columns == w.columns && w.rows == y.columns,
                "matrix product: x (rows, in), w (out, in) and y (rows, out) do not agree");
  const auto fits = [](const ConstMatrix& t) { return t.rows <= 1 || t.stride >= t.columns; };
  core::require(fits(x) && fits(w) && fits(y), "matrix product: a row stride is shorter than its row");
  const auto known = [compute](const ConstMatrix& t) { return t.type == compute || t.type == core::DataType::fp32; };
  core::require(known(x) && known(y), "matrix product: not made for operands of this type");
}

void require_weight_gradient(core::DataType compute, const ConstMatrix& x, const ConstMatrix& d_w,
                             const ConstMatrix& d_y, Write write) {
  require_product_shapes(compute, x, d_w, d_y);
  core::require(d_w.type == core::DataType::fp32 || (d_w.type == compute && write == Write::replace),
                "matrix product: a weight's gradient is added to in fp32");
}

void set_zero_rows(const Matrix& x) {
  const std::int64_t bytes = core::bytes_of(x.type);
  if (x.contiguous()) return core::fill_on_device(x.data, 0, static_cast<std::size_t>(x.size() * bytes));
  for (std::int64_t i = 0; i < x.rows; ++i) {
    core::fill_on_device(x.row(i), 0, static_cast<std::size_t>(x.columns * bytes));
  }
}

}  // namespace detail

std::int64_t MatrixProduct::keep_weights(const core::ParameterStore& parameters) {
  if (compute_ == core::DataType::fp32) return 0;
  kept_.emplace(parameters, compute_);
  return kept_->bytes();
}

namespace {

template <class AnyMatrix>
AnyMatrix shifted(AnyMatrix x, std::int64_t elements) {
  x.data = x.at(0, elements);
  return x;
}

Tensor<const float> shifted(Tensor<const float> w, std::int64_t elements) {
  w.data += elements;
  return w;
}

}  // namespace

void MatrixProduct::forward_series(const ProductSeries& series, float factor, ConstMatrix x, Tensor<const float> w,
                                   Matrix y) {
  for (std::int64_t i = 0; i < series.count; ++i) {
    forward(shifted(x, i * series.x), shifted(w, i * series.w), {}, shifted(y, i * series.y));
  }
  if (factor == 1.0f) return;
  const bool neighbours = series.count == 1 || series.y == y.columns;
  if (neighbours) return scale(factor, {y.data, y.rows, series.count * y.columns, y.stride, y.type});
  for (std::int64_t i = 0; i < series.count; ++i) scale(factor, shifted(y, i * series.y));
}

void MatrixProduct::backward_input_series(const ProductSeries& series, ConstMatrix d_y, Tensor<const float> w,
                                          Matrix d_x, Write write) {
  for (std::int64_t i = 0; i < series.count; ++i) {
    backward_input(shifted(d_y, i * series.y), shifted(w, i * series.w), shifted(d_x, i * series.x), write);
  }
}

void MatrixProduct::backward_weight_series(const ProductSeries& series, ConstMatrix d_y, ConstMatrix x, Matrix d_w,
                                           Write write) {
  for (std::int64_t i = 0; i < series.count; ++i) {
    backward_weight(shifted(d_y, i * series.y), shifted(x, i * series.x), shifted(d_w, i * series.w), nullptr, write);
  }
}

void GemmProduct::forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) {
  const Matrix sum = epilogue.sum(y);
  detail::require_product_shapes(compute(), x, w, sum);
  if (sum.rows == 0) return;
  gemm(sum.rows, sum.columns, x.columns, operand(x, Use::as_is), operand(read(w), Use::transposed), 0.0f,
       {sum.data, sum.stride, sum.type});
  finish(epilogue, y);
}

void GemmProduct::backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, const InputEpilogue& epilogue) {
  detail::require_product_shapes(compute(), d_x, w, d_y);
  if (d_x.rows == 0) return;
  gemm(d_x.rows, d_x.columns, d_y.columns, operand(d_y, Use::as_is), operand(read(w), Use::as_is),
       epilogue.write == Write::accumulate ? 1.0f : 0.0f, {d_x.data, d_x.stride, d_x.type});
  finish(epilogue, d_x);
}

void GemmProduct::backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) {
  detail::require_weight_gradient(compute(), x, d_w, d_y, write);
  if (d_bias != nullptr) column_sums(d_y, d_bias, write);
  if (x.rows == 0) {
    if (write == Write::replace) detail::set_zero_rows(d_w);
    return;
  }
  gemm(d_w.rows, d_w.columns, x.rows, operand(d_y, Use::transposed), operand(x, Use::as_is),
       write == Write::accumulate ? 1.0f : 0.0f, {d_w.data, d_w.stride, d_w.type});
}

std::unique_ptr<MatrixProduct> make_matrix_product(const std::string& preferred, const ProductSettings& settings) {
  const auto fits = [&preferred](std::string_view name) {
    if (preferred.empty() || preferred == "tuned") return true;
    return preferred == "library" ? name != "native" && name != "portable" : name == preferred;
  };
  std::string available;
  for (const ProductKind& kind : product_kinds()) {
    if (!fits(kind.name)) {
      if (kind.make(settings) == nullptr) continue;
      available += (available.empty() ? "\"" : ", \"") + std::string(kind.name) + "\"";
      continue;
    }
    if (auto product = kind.make(settings)) return product;
  }
  throw core::Error(core::ExitCode::input, "no matrix product \"" + preferred + "\" in this build on this processor; " +
                                               "there are: " + available + ".");
}

}  // namespace bert_hpc::ops
