#include "lstm.hpp"

#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/column_sums.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "sublayer_kind.hpp"

namespace bert_hpc::layers {
namespace {

constexpr std::int64_t directions = 2, gates = 4;

class LstmKind final : public KindOf<Lstm, LstmSettings> {
 public:
  using KindOf::KindOf;

  std::string name() const override { return "LSTM"; }
  bool mixes_tokens() const override { return true; }
  bool can_be_shared() const override { return false; }
  std::vector<SublayerLinear> linear_layers(const SublayerSettings&) const override { return {}; }
  LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const override;
  bool computes_like(const SublayerKind& other) const override {
    const auto* const same = dynamic_cast<const LstmKind*>(&other);
    return same != nullptr && same->own_.input == own_.input && same->own_.states == own_.states;
  }
};

LayerCosts LstmKind::costs(const SublayerSettings& settings, const BatchShape& batch, bool) const {
  const auto states = static_cast<double>(directions * own_.states), input = static_cast<double>(own_.input);
  const auto element = static_cast<double>(core::bytes_of(settings.storage));
  const double all_gates = gates * states, weights = all_gates * input + all_gates * static_cast<double>(own_.states);
  LayerCosts costs;
  // Gates are written by the product and read and written by the recurrence, with sums of the same size in between.
  costs.work = work_of_products(
      2 * batch.tokens * weights, 0,
      batch.tokens * (element * (3 * all_gates + input + 3 * states) + sizeof(float) * (2 * all_gates + 2 * states)),
      element * batch.tokens * (2 * all_gates + input + states), weights, 0);
  costs.saved_bytes = batch.tokens * (element * (all_gates + 2 * states) + sizeof(float) * states);
  costs.deferred_bytes = element * batch.tokens * all_gates;
  return costs;
}

}  // namespace

std::shared_ptr<const SublayerKind> lstm_sublayer(LstmSettings settings) {
  return std::make_shared<LstmKind>(std::move(settings));
}

void Lstm::declare(const SublayerSettings&, const LstmSettings& own, std::vector<core::ParameterSpec>& specs,
                   const TensorRank&) {
  const std::int64_t rows = gates * own.states;
  for (const std::string& name : own.input_weight) {
    specs.push_back(
        {.name = name, .shape = {rows, own.input}, .joined = &name != &own.input_weight.front(), .one_product = true});
  }
  for (const std::string& name : own.state_weight) {
    specs.push_back({.name = name, .shape = {rows, own.states}, .one_product = true});
  }
  for (const auto* const names : {&own.input_bias, &own.state_bias}) {
    for (const std::string& name : *names) {
      declare_vector(specs, {.name = name, .shape = {rows}, .joined = &name != &names->front()});
    }
  }
}

Lstm::Lstm(const SublayerSettings& settings, const LstmSettings& own, const core::ParameterStore& parameters,
           const TensorGroup& group)
    : settings_(settings),
      own_(own),
      parameters_(parameters),
      input_weight_(parameters.find(own.input_weight[0])),
      state_weight_{parameters.find(own.state_weight[0]), parameters.find(own.state_weight[1])},
      input_bias_(parameters.find(own.input_bias[0])),
      state_bias_(parameters.find(own.state_bias[0])) {
  core::require(!group.shared() && settings.hidden == directions * own.states,
                "an LSTM layer has the states of both directions on one rank");
}

void Lstm::allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection*, std::int64_t,
                          SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const std::int64_t states = directions * own_.states;
  saved.gates = workspace.take(tokens, gates * states, settings_.storage);
  saved.previous = workspace.take(tokens, states, settings_.storage);
  saved.cells = workspace.take<float>(tokens, states);
  saved.bias = workspace.take<float>(1, gates * states);
  saved.output = workspace.take(tokens, states, settings_.storage);
}

void Lstm::allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection*,
                             WeightGradientInputs& of_micro_batch) const {
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  deferred = {};
  deferred.d_gates = workspace.take(tokens, gates * directions * own_.states, settings_.storage);
}

std::vector<LinearWeight> Lstm::linear_weights(bool) const {
  const auto weight = [this](int slice, Tensor<const float> values) {
    return LinearWeight{
        .slice = slice, .name = parameters_.slices()[static_cast<std::size_t>(slice)].name, .weights = values};
  };
  std::vector<LinearWeight> weights = {weight(input_weight_, input_weight())};
  for (const int slice : state_weight_) weights.push_back(weight(slice, parameters_.value(slice)));
  weights.back().scratch_bytes_of_sequence = ops::lstm_scratch_bytes(own_.states);
  return weights;
}

void Lstm::forward(Engine& engine, const StepContext& context, const RowSelection*, const Stream& x,
                   SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const std::int64_t columns = saved.bias.columns;
  ops::copy(Tensor<const float>(parameters_.value(input_bias_).data, 1, columns), saved.bias);
  ops::add(Tensor<const float>(parameters_.value(state_bias_).data, 1, columns), saved.bias);
  engine.products.forward(x.y, input_weight(), {}, saved.gates);
  ops::lstm_forward(engine.products, weights(saved), context.batch.by_length, saved.activations(), *engine.scratch);
  const core::Dropout drop = context.dropout(settings_.hidden_dropout, settings_.first_site);
  if (drop.probability > 0) ops::dropout(drop, context.batch.tokens, saved.output, saved.output);
}

void Lstm::backward_input(Engine& engine, const StepContext& context, const RowSelection*,
                          const SavedActivations& of_forward, const StreamGradient& d_y,
                          WeightGradientInputs& of_micro_batch, const StreamGradient& d_x, core::Workspace&) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  const auto& deferred = static_cast<const Deferred&>(of_micro_batch);
  const core::Dropout drop = context.dropout(settings_.hidden_dropout, settings_.first_site);
  if (drop.probability > 0) ops::dropout(drop, context.batch.tokens, d_y.y, d_y.y);
  ops::lstm_backward(engine.products, weights(saved), context.batch.by_length, saved.activations(), d_y.y,
                     deferred.d_gates, *engine.scratch);
  engine.products.backward_input(deferred.d_gates, input_weight(), d_x.y, ops::Write::replace);
}

void Lstm::backward_weight(Engine& engine, const StepContext&, const RowSelection*, const SavedActivations& of_forward,
                           const WeightGradientInputs& of_backward, ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  const auto& deferred = static_cast<const Deferred&>(of_backward);
  const auto gradient = [this](int slice) { return parameters_.gradient_matrix(slice); };
  if (parameters_.is_trainable(input_weight_)) {
    Matrix of_inputs = gradient(input_weight_);
    of_inputs.rows *= directions;
    engine.products.backward_weight(deferred.d_gates, x, of_inputs, nullptr, engine.weight_gradients);
  }
  for (int d = 0; d < directions; ++d) {
    if (!parameters_.is_trainable(state_weight_[d])) continue;
    engine.products.backward_weight(deferred.d_gates.column_range(d * gates * own_.states, gates * own_.states),
                                    saved.previous.column_range(d * own_.states, own_.states),
                                    gradient(state_weight_[d]), nullptr, engine.weight_gradients);
  }
  const std::array<float*, 2> of_biases = {parameters_.gradient(input_bias_).data,
                                           parameters_.gradient(state_bias_).data};
  for (float* const of_bias : of_biases) {
    if (of_bias != nullptr) ops::column_sums(deferred.d_gates, of_bias, ops::Write::accumulate);
  }
}

}  // namespace bert_hpc::layers
