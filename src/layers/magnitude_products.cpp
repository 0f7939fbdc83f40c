// What adapters with magnitudes compute (low_rank_adapter.hpp), with u = x'·wᵀ + s·x'·aᵀ·b̂ and d_u = g ∘ d_y.
#include "bert_hpc/layers/low_rank_adapter.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "bert_hpc/ops/row_norms.hpp"

namespace bert_hpc::layers {

using ops::Write;

Tensor<const float> Adapters::all_w() const {
  const Tensor<const float> first = parameters_->value(first_weight_);
  return {first.data, outputs_, first.columns};
}

RowFactors::Rows Adapters::factors(const Engine& engine) const {
  core::require(engine.factors != nullptr, "adapter: magnitudes need the engine's row factors");
  return engine.factors->of(first_weight_, joined_, scale_);
}

Matrix Adapters::take_like(const Engine& engine, ConstMatrix y) const {
  return engine.scratch->take(y.rows, y.columns, y.type);
}

void Adapters::forward_scaled(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows, ConstMatrix x,
                              const float* bias, Matrix y) const {
  const ScratchScope scope(*engine.scratch);
  const float* const g = factors(engine).factors;
  if (drops(rows)) {
    products.forward(x, all_w(), bias, y);
    return forward_dropped(engine, products, rows, dropped(engine, rows, x), y);
  }
  products.forward(x, all_w(), {}, y);
  forward(engine, products, rows, x, y);
  ops::scale_columns({.factors = g, .bias = bias}, y, y, Write::replace);
}

/// y += (g − 1) ∘ (x'·wᵀ) + g ∘ (s·x'·aᵀ·b̂), x' being `kept`.
void Adapters::forward_dropped(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                               ConstMatrix kept, Matrix y) const {
  const float* const g = factors(engine).factors;
  const Matrix part = take_like(engine, y);
  const ConstMatrix inner = inner_of_x(products, rows, kept);
  for (std::size_t i = 0; i < count(); ++i) {
    const Matrix of_layer = columns_of(part, i), of_y = columns_of(y, i);
    const float* const g_of_layer = g + parts_[i].column;
    products.forward(kept, w(i), {}, of_layer);
    ops::scale_columns({.factors = g_of_layer, .shift = -1}, of_layer, of_y, Write::accumulate);
    products.backward_input(inner_of(inner, i), b(i), of_layer, Write::replace);
    ops::scale_columns({.factors = g_of_layer}, of_layer, of_y, Write::accumulate);
  }
}

/// Without dropout d_x = d_u·(w + s·b̂ᵀ·a). With it d_x = d_y·w + dropout(((g − 1) ∘ d_y)·w + s·d_u·b̂ᵀ·a).
void Adapters::backward_input_scaled(const Engine& engine, ops::MatrixProduct& products, const LinearRows& rows,
                                     ConstMatrix d_y, Matrix d_x, Write write) const {
  const ScratchScope scope(*engine.scratch);
  const float* const g = factors(engine).factors;
  const Matrix part = take_like(engine, d_y);
  ops::scale_columns({.factors = g}, d_y, part, Write::replace);
  const ConstMatrix inner = inner_of_d_y(engine, products, rows, part);
  if (!drops(rows)) {
    products.backward_input(part, all_w(), d_x, write);
    return products.backward_input(inner, a(), d_x, Write::accumulate);
  }
  products.backward_input(d_y, all_w(), d_x, write);
  const Matrix added = take_like(engine, d_x);
  products.backward_input(inner, a(), added, Write::replace);
  for (std::size_t i = 0; i < count(); ++i) {
    const Matrix of_layer = columns_of(part, i);
    ops::scale_columns({.factors = g + parts_[i].column, .shift = -1}, columns_of(d_y, i), of_layer, Write::replace);
    products.backward_input(of_layer, w(i), added, Write::accumulate);
  }
  ops::dropout(dropout(rows), *rows.rows, added, added);
  ops::add(added, d_x);
}

/// d_m += Σ_rows d_y ∘ u / ‖w + s·b̂ᵀ·a‖. kept: x'; of_x: s·x'·aᵀ; `scratch` is of y's shape.
void Adapters::add_magnitude_gradients(const Engine& engine, ops::MatrixProduct& products, ConstMatrix d_y,
                                       ConstMatrix kept, ConstMatrix of_x, Matrix scratch) const {
  const float* const norms = factors(engine).norms;
  for (std::size_t i = 0; i < count(); ++i) {
    const Matrix u = columns_of(scratch, i);
    products.forward(kept, w(i), {}, u);
    products.backward_input(inner_of(of_x, i), b(i), u, Write::accumulate);
    const Tensor<float> gradient = parameters_->gradient(parts_[i].magnitude);
    if (!shares(LayerSplit::inputs)) {
      ops::add_column_products(columns_of(d_y, i), u, norms + parts_[i].column, gradient.data);
      continue;
    }
    const Tensor<float> sum = group_.partial(gradient, 1).as<float>();
    ops::fill({sum.data, static_cast<std::size_t>(sum.size())}, 0.0f);
    ops::add_column_products(columns_of(d_y, i), u, norms + parts_[i].column, sum.data);
    group_.all_reduce(sum, comm::Reduction::sum);
    ops::add(sum, gradient);
  }
}

}  // namespace bert_hpc::layers
