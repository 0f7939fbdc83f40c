#include "bert_hpc/layers/linear.hpp"

#include <utility>

#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::layers {
namespace {

/// Rows of the slices [first, first + count).
std::int64_t rows_of(const core::ParameterStore& parameters, int first, std::int64_t count) {
  std::int64_t rows = 0;
  for (std::int64_t i = 0; i < count; ++i) rows += parameters.slices()[static_cast<std::size_t>(first + i)].rows;
  return rows;
}

}  // namespace

void declare_vector(std::vector<core::ParameterSpec>& specs, core::ParameterSpec spec) {
  spec.decay = false;
  spec.initial = core::InitialValues::zeros;
  specs.push_back(std::move(spec));
}

Linear::Linear(const core::ParameterStore& parameters, const LinearSettings& settings)
    : parameters_(&parameters),
      weight_(parameters.find(settings.weight)),
      bias_(settings.bias.empty() ? -1 : parameters.find(settings.bias)),
      outputs_(rows_of(parameters, weight_, settings.joined)),
      in_encoder_(settings.in_encoder),
      adapters_(parameters, weight_, settings.joined, settings.adapters, settings.adapter_site, settings.group) {}

void Linear::forward(const Engine& engine, ConstMatrix x, Matrix y, const LinearRows& rows) const {
  if (adapters_.have_magnitudes()) {
    return adapters_.forward_scaled(engine, products(engine), rows, x, bias(), y);
  }
  products(engine).forward(x, values(), bias(), y);
  adapters_.forward(engine, products(engine), rows, x, y);
}

void Linear::forward(const Engine& engine, ConstMatrix x, ops::Activation activation, Matrix pre, Matrix y,
                     const LinearRows& rows) const {
  if (adapters_.none()) return products(engine).forward(x, values(), {bias(), activation, pre}, y);
  forward(engine, x, pre, rows);
  ops::activate({bias(), activation, pre}, y);
}

void Linear::forward_without_bias(const Engine& engine, const ops::ProductOperand& operand, Matrix y,
                                  const LinearRows& rows) const {
  if (!operand.is_matrix()) return engine.fp8->of(weight_).forward(operand, y);
  const ConstMatrix& x = operand.matrix;
  if (adapters_.have_magnitudes()) {
    return adapters_.forward_scaled(engine, products(engine), rows, x, nullptr, y);
  }
  products(engine).forward(x, values(), {}, y);
  adapters_.forward(engine, products(engine), rows, x, y);
}

void Linear::backward_input(const Engine& engine, const ops::ProductOperand& operand, Matrix d_x, ops::Write write,
                            const LinearRows& rows) const {
  if (!operand.is_matrix()) return engine.fp8->of(weight_).backward_input(operand, d_x, write);
  const ConstMatrix& d_y = operand.matrix;
  if (adapters_.have_magnitudes()) {
    return adapters_.backward_input_scaled(engine, products(engine), rows, d_y, d_x, write);
  }
  products(engine).backward_input(d_y, values(), d_x, write);
  adapters_.backward_input(engine, products(engine), rows, d_y, d_x);
}

void Linear::backward_input(const Engine& engine, ConstMatrix d_y, ops::Activation activation, ConstMatrix pre,
                            Matrix d_pre, const LinearRows& rows) const {
  if (adapters_.none()) return products(engine).backward_input(d_y, values(), d_pre, {activation, pre});
  backward_input(engine, d_y, d_pre, ops::Write::replace, rows);
  ops::finish(ops::InputEpilogue(activation, pre), d_pre);
}

void Linear::add_weight_gradient(const Engine& engine, ConstMatrix d_y, ConstMatrix x, float* d_bias,
                                 const LinearRows& rows) const {
  adapters_.backward_weight(engine, products(engine), rows, d_y, x);
  if (!parameters_->is_trainable(weight_)) {
    if (d_bias != nullptr) ops::column_sums(d_y, d_bias, ops::Write::accumulate);
    return;
  }
  const ops::Write write = in_encoder_ ? engine.weight_gradients : ops::Write::accumulate;
  products(engine).backward_weight(d_y, x, gradients(), d_bias, write);
}

void Linear::backward_weight(const Engine& engine, ConstMatrix d_y, const ops::ProductOperand& x,
                             const LinearRows& rows) const {
  if (x.is_matrix()) return add_weight_gradient(engine, d_y, x.matrix, bias_gradient(), rows);
  ops::column_sums(d_y, bias_gradient(), ops::Write::accumulate);
  backward_weight_without_bias(engine, d_y, x, rows);
}

void Linear::backward_weight_without_bias(const Engine& engine, const ops::ProductOperand& d_y,
                                          const ops::ProductOperand& x, const LinearRows& rows) const {
  if (d_y.is_matrix() && x.is_matrix()) return add_weight_gradient(engine, d_y.matrix, x.matrix, nullptr, rows);
  if (!parameters_->is_trainable(weight_)) return;
  engine.fp8->of(weight_).backward_weight(d_y, x, gradients(), engine.weight_gradients);
}

LinearWeight Linear::weight(bool selected) const {
  return {.slice = weight_,
          .name = parameters_->slices()[static_cast<std::size_t>(weight_)].name,
          .weights = values(),
          .selected = selected};
}

void Linear::list_weights(bool selected, std::vector<LinearWeight>& weights) const {
  weights.push_back(weight(selected));
  adapters_.list_weights(selected, weights);
}

}  // namespace bert_hpc::layers
