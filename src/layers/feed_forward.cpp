#include "feed_forward.hpp"

#include <utility>

#include "sublayer_kind.hpp"

namespace bert_hpc::layers {
namespace {

constexpr std::uint32_t output_site_of_block = 2, intermediate_input = 3;

/// The kind of sublayer that a FeedForward computes.
class FeedForwardKind final : public KindOf<FeedForward, FeedForwardSettings> {
 public:
  using KindOf::KindOf;

  std::string name() const override { return "feed-forward"; }
  bool mixes_tokens() const override { return false; }
  std::vector<SublayerLinear> linear_layers(const SublayerSettings& settings) const override {
    return {{.name = own_.intermediate, .in = settings.hidden, .out = own_.intermediate_size},
            {.name = settings.output, .in = own_.intermediate_size, .out = settings.hidden}};
  }
  LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const override;
  bool computes_like(const SublayerKind& other) const override {
    const auto* const same = dynamic_cast<const FeedForwardKind*>(&other);
    return same != nullptr && same->own_.intermediate_size == own_.intermediate_size &&
           same->own_.activation == own_.activation;
  }
};

LayerCosts FeedForwardKind::costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const {
  const auto hidden = static_cast<double>(settings.hidden), wide = static_cast<double>(own_.intermediate_size);
  const auto element = static_cast<double>(core::bytes_of(settings.storage));
  const double rows = selects ? batch.logit_positions : batch.tokens, weights = 2 * hidden * wide;
  LayerCosts costs;
  costs.work = work_of_products(2 * rows * weights, 0, element * rows * (6 * hidden + 3 * wide),
                                element * rows * (2 * hidden + 2 * wide), weights, 0);
  costs.saved_bytes = element * rows * (2 * hidden + 2 * wide + 2);
  costs.deferred_bytes = element * rows * (2 * hidden + wide);
  return costs;
}

}  // namespace

std::shared_ptr<const SublayerKind> feed_forward_sublayer(FeedForwardSettings settings) {
  return std::make_shared<FeedForwardKind>(std::move(settings));
}

void FeedForward::declare(const SublayerSettings& settings, const FeedForwardSettings& own,
                          std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) {
  const std::int64_t intermediate = own.intermediate_size, wide = tensor_rank.share(intermediate);
  const core::Shard here = tensor_rank.rows(intermediate);
  specs.push_back(
      {.name = own.intermediate + ".weight", .shape = {wide, settings.hidden}, .shard = here, .one_product = true});
  if (settings.biases) declare_vector(specs, {.name = own.intermediate + ".bias", .shape = {wide}, .shard = here});
  declare_output(settings, intermediate, specs, tensor_rank);
  declare_adapters(settings, {{own.intermediate, settings.hidden, intermediate}}, LayerSplit::outputs, specs,
                   tensor_rank);
  declare_adapters(settings, {{settings.output, intermediate, settings.hidden}}, LayerSplit::inputs, specs,
                   tensor_rank);
}

FeedForward::FeedForward(const SublayerSettings& settings, const FeedForwardSettings& own,
                         const core::ParameterStore& parameters, const TensorGroup& group)
    : ResidualSublayer(settings, parameters, group, output_site_of_block),
      wide_(group.tensor_rank().share(own.intermediate_size)),
      activation_(own.activation),
      intermediate_(linear(own.intermediate, intermediate_input)) {}

void FeedForward::allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                 std::int64_t, SavedActivations& of_micro_batch) const {
  const std::int64_t rows = row_count(tokens, selection);
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  saved.intermediate = workspace.take(rows, wide_, settings_.storage);
  saved.activated = workspace.take(rows, wide_, settings_.storage);
  saved.intermediate_inner = intermediate_.take_inner(workspace, rows, settings_.storage);
  allocate_output(workspace, rows, saved);
}

void FeedForward::allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                    WeightGradientInputs& of_micro_batch) const {
  const std::int64_t rows = row_count(tokens, selection);
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  deferred = {};
  allocate_product(workspace, rows, deferred);
  deferred.d_intermediate = workspace.take(rows, wide_, settings_.storage);
  deferred.intermediate_inner = intermediate_.take_inner(workspace, rows, settings_.storage);
  if (fuses_bias_sums()) {
    deferred.intermediate_sums = workspace.take<float>(ops::ProductOperand::partial_sums(rows), wide_);
  }
}

std::vector<LinearWeight> FeedForward::linear_weights(bool selects) const {
  std::vector<LinearWeight> weights;
  intermediate_.list_weights(selects, weights);
  output_.list_weights(selects, weights);
  return weights;
}

void FeedForward::forward(Engine& engine, const StepContext& context, const RowSelection* selection, const Stream& x,
                          SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows& rows = rows_of(context, selection);
  if (rounds_gelu(engine)) {
    intermediate_.forward(engine, group_.gather(x.y, rows.count), saved.intermediate);
    return finish_forward(engine, context, rows, ops::ProductOperand::gelu(saved.intermediate), x.residual, saved);
  }
  intermediate_.forward(engine, group_.gather(x.y, rows.count), activation_, saved.intermediate, saved.activated,
                        of(context, rows, saved.intermediate_inner));
  finish_forward(engine, context, rows, saved.activated, x.residual, saved);
}

void FeedForward::backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                                 const SavedActivations& of_forward, const StreamGradient& d_y,
                                 WeightGradientInputs& of_micro_batch, const StreamGradient& d_x,
                                 core::Workspace&) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  const core::TokenRows& rows = rows_of(context, selection);
  const Matrix sum = group_.partial(d_x.y, rows.count);
  const bool joint = !settings_.sum_in;  // one gradient begins with the residual's
  if (joint) group_.keep_own(sum);
  begin_backward(context, rows, saved, d_y, deferred, joint ? group_.own(sum) : d_x.residual);
  const ConstMatrix d_product = group_.gather(deferred.d_product, rows.count);
  const LinearRows of_output = of(context, rows, {}, deferred.output_inner);
  ops::ProductOperand d_intermediate_operand = deferred.d_intermediate;
  if (rounds_gelu(engine)) {
    output_.backward_input(engine, d_product, deferred.d_intermediate, ops::Write::replace, of_output);
    d_intermediate_operand = gradient_of(saved, deferred);
  } else if (fuses_bias_sums()) {
    output_.backward_input(engine, d_product, deferred.d_intermediate, ops::Write::replace, of_output);
    const Matrix& d_intermediate = deferred.d_intermediate;
    if (deferred.at_once) {
      ops::gelu_backward(saved.intermediate, d_intermediate, d_intermediate, intermediate_.bias_gradient(),
                         ops::Write::accumulate, norm_gradients(deferred));
    } else {
      ops::gelu_backward(saved.intermediate, d_intermediate, d_intermediate, deferred.intermediate_sums.data,
                         ops::Write::replace);
    }
  } else {
    output_.backward_input(engine, d_product, activation_, saved.intermediate, deferred.d_intermediate, of_output);
  }
  intermediate_.backward_input(engine, d_intermediate_operand, sum,
                               joint ? ops::Write::accumulate : ops::Write::replace,
                               of(context, rows, {}, deferred.intermediate_inner));
  group_.sum(sum, d_x.y);
}

void FeedForward::backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                                  const SavedActivations& of_forward, const WeightGradientInputs& of_backward,
                                  ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  const auto& deferred = static_cast<const Deferred&>(of_backward);
  const core::TokenRows& rows = rows_of(context, selection);
  const bool rounds = rounds_gelu(engine);
  add_output_gradients(engine, context, rows, saved, deferred,
                       rounds ? ops::ProductOperand::gelu(saved.intermediate) : saved.activated);
  const ConstMatrix input = group_.gather(x, saved.activated.rows);
  const LinearRows kept = of(context, rows, saved.intermediate_inner, deferred.intermediate_inner);
  const auto add_sums = [&](std::int64_t parts) {
    const Tensor<float>& sums = deferred.intermediate_sums;
    const ops::ColumnSums bias[] = {{Tensor<float>(sums.data, parts, wide_), {intermediate_.bias_gradient()}}};
    ops::add_column_sums(bias, norm_gradients(deferred), ops::Write::accumulate);
  };
  if (rounds) {
    add_sums(deferred.intermediate_sums.rows);
    return intermediate_.backward_weight_without_bias(engine, gradient_of(saved, deferred), input, kept);
  }
  if (fuses_bias_sums()) {
    if (!deferred.at_once) add_sums(1);
    return intermediate_.backward_weight_without_bias(engine, deferred.d_intermediate, input, kept);
  }
  if (fuses_norm_sums()) ops::add_column_sums({}, norm_gradients(deferred), ops::Write::accumulate);
  intermediate_.backward_weight(engine, deferred.d_intermediate, input, kept);
}

}  // namespace bert_hpc::layers
