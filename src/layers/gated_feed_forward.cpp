// The feed-forward sublayer with a gate: (activation(x·Wiᵀ) ∘ x·Wgᵀ)·W2ᵀ and its residual step. Wi and Wg follow one
// another, so that one product computes both.
#include <utility>

#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/ops/gated.hpp"
#include "residual_sublayer.hpp"
#include "sublayer_kind.hpp"

namespace bert_hpc::layers {
namespace {

constexpr std::uint32_t gated_output_site = 2, gated_input = 3;  // as in feed_forward.cpp

class GatedFeedForward : public ResidualSublayer {
 public:
  GatedFeedForward(const SublayerSettings& settings, const GatedFeedForwardSettings& own,
                   const core::ParameterStore& parameters, const TensorGroup& group)
      : ResidualSublayer(settings, parameters, group, gated_output_site),
        wide_(group.tensor_rank().share(own.intermediate_size)),
        activation_(own.activation),
        intermediate_(linear(own.intermediate, gated_input, 2)) {}

  static void declare(const SublayerSettings& settings, const GatedFeedForwardSettings& own,
                      std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank);

  std::unique_ptr<SavedActivations> make_saved() const override { return std::make_unique<Saved>(); }
  std::unique_ptr<WeightGradientInputs> make_deferred() const override { return std::make_unique<Deferred>(); }
  void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                      std::int64_t dropout_tiles, SavedActivations& saved) const override;
  void allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                         WeightGradientInputs& deferred) const override;
  std::vector<LinearWeight> linear_weights(bool selects) const override;
  void forward(Engine& engine, const StepContext& context, const RowSelection* selection, const Stream& x,
               SavedActivations& saved) const override;
  void backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                      const SavedActivations& saved, const StreamGradient& d_y, WeightGradientInputs& deferred,
                      const StreamGradient& d_x, core::Workspace& workspace) const override;
  void plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const override;
  void backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                       const SavedActivations& saved, const WeightGradientInputs& deferred,
                       ConstMatrix x) const override;

 private:
  /// "wide": the intermediate columns of this rank.
  struct Saved : ResidualActivations {
    Matrix intermediate;        ///< (rows, 2·wide): before the activation, and the gate
    Matrix activated;           ///< (rows, wide)
    Matrix intermediate_inner;  ///< of the first product's adapters: LinearRows::of_x
  };
  struct Deferred : ResidualGradients {
    Matrix d_intermediate;      ///< (rows, 2·wide)
    Matrix intermediate_inner;  ///< of the first product's adapters: LinearRows::of_d_y
  };

  std::int64_t wide_;  // intermediate columns here
  Activation activation_;
  Linear intermediate_;  // and the gate
};

/// The kind of sublayer that a GatedFeedForward computes.
class GatedFeedForwardKind final : public KindOf<GatedFeedForward, GatedFeedForwardSettings> {
 public:
  using KindOf::KindOf;

  std::string name() const override { return "feed-forward"; }
  bool mixes_tokens() const override { return false; }
  std::vector<SublayerLinear> linear_layers(const SublayerSettings& settings) const override {
    return {{.name = own_.intermediate, .in = settings.hidden, .out = own_.intermediate_size},
            {.name = own_.gate, .in = settings.hidden, .out = own_.intermediate_size},
            {.name = settings.output, .in = own_.intermediate_size, .out = settings.hidden}};
  }
  LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const override {
    const auto hidden = static_cast<double>(settings.hidden), wide = static_cast<double>(own_.intermediate_size);
    const auto element = static_cast<double>(core::bytes_of(settings.storage));
    const double rows = selects ? batch.logit_positions : batch.tokens, weights = 3 * hidden * wide;
    LayerCosts costs;
    // Between the products: 3 · wide read and written forward, 6 backward.
    costs.work = work_of_products(2 * rows * weights, 0, element * rows * (6 * hidden + 7 * wide),
                                  element * rows * (2 * hidden + 3 * wide), weights, 0);
    costs.saved_bytes = element * rows * (2 * hidden + 3 * wide + 2);
    costs.deferred_bytes = element * rows * (2 * hidden + 2 * wide);
    return costs;
  }
  bool computes_like(const SublayerKind& other) const override {
    const auto* const same = dynamic_cast<const GatedFeedForwardKind*>(&other);
    return same != nullptr && same->own_.intermediate_size == own_.intermediate_size &&
           same->own_.activation == own_.activation;
  }
};

void GatedFeedForward::declare(const SublayerSettings& settings, const GatedFeedForwardSettings& own,
                               std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) {
  const std::int64_t intermediate = own.intermediate_size, wide = tensor_rank.share(intermediate);
  const core::Shard here = tensor_rank.rows(intermediate);
  for (const std::string* const name : {&own.intermediate, &own.gate}) {
    specs.push_back({.name = *name + ".weight",
                     .shape = {wide, settings.hidden},
                     .joined = name == &own.gate,
                     .shard = here,
                     .one_product = true});
  }
  for (const std::string* const name : {&own.intermediate, &own.gate}) {
    if (!settings.biases) break;
    declare_vector(specs, {.name = *name + ".bias", .shape = {wide}, .joined = name == &own.gate, .shard = here});
  }
  declare_output(settings, intermediate, specs, tensor_rank);
  declare_adapters(settings,
                   {{own.intermediate, settings.hidden, intermediate}, {own.gate, settings.hidden, intermediate}},
                   LayerSplit::outputs, specs, tensor_rank);
  declare_adapters(settings, {{settings.output, intermediate, settings.hidden}}, LayerSplit::inputs, specs,
                   tensor_rank);
}

void GatedFeedForward::allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                      std::int64_t, SavedActivations& of_micro_batch) const {
  const std::int64_t rows = row_count(tokens, selection);
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  saved.intermediate = workspace.take(rows, 2 * wide_, settings_.storage);
  saved.activated = workspace.take(rows, wide_, settings_.storage);
  saved.intermediate_inner = intermediate_.take_inner(workspace, rows, settings_.storage);
  allocate_output(workspace, rows, saved);
}

void GatedFeedForward::allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                         WeightGradientInputs& of_micro_batch) const {
  const std::int64_t rows = row_count(tokens, selection);
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  deferred = {};
  allocate_product(workspace, rows, deferred);
  deferred.d_intermediate = workspace.take(rows, 2 * wide_, settings_.storage);
  deferred.intermediate_inner = intermediate_.take_inner(workspace, rows, settings_.storage);
}

void GatedFeedForward::plan_scratch(core::Workspace& workspace, std::int64_t tokens,
                                    const RowSelection* selection) const {
  const std::int64_t mark = workspace.mark();
  workspace.take(row_count(tokens, selection), wide_, settings_.storage);
  workspace.release(mark);
}

std::vector<LinearWeight> GatedFeedForward::linear_weights(bool selects) const {
  std::vector<LinearWeight> weights;
  intermediate_.list_weights(selects, weights);
  output_.list_weights(selects, weights);
  return weights;
}

void GatedFeedForward::forward(Engine& engine, const StepContext& context, const RowSelection* selection,
                               const Stream& x, SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::TokenRows& rows = rows_of(context, selection);
  intermediate_.forward(engine, group_.gather(x.y, rows.count), saved.intermediate,
                        of(context, rows, saved.intermediate_inner));
  ops::gated_forward(activation_, saved.intermediate, saved.activated);
  finish_forward(engine, context, rows, saved.activated, x.residual, saved);
}

void GatedFeedForward::backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                                      const SavedActivations& of_forward, const StreamGradient& d_y,
                                      WeightGradientInputs& of_micro_batch, const StreamGradient& d_x,
                                      core::Workspace& workspace) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  const core::TokenRows& rows = rows_of(context, selection);
  const std::int64_t mark = workspace.mark();
  const Matrix d_activated = workspace.take(rows.count, wide_, settings_.storage);
  const Matrix sum = group_.partial(d_x.y, rows.count);
  const bool joint = !settings_.sum_in;  // one gradient begins with the residual's
  if (joint) group_.keep_own(sum);
  begin_backward(context, rows, saved, d_y, deferred, joint ? group_.own(sum) : d_x.residual);
  output_.backward_input(engine, group_.gather(deferred.d_product, rows.count), d_activated, ops::Write::replace,
                         of(context, rows, {}, deferred.output_inner));
  ops::gated_backward(activation_, saved.intermediate, d_activated, deferred.d_intermediate);
  intermediate_.backward_input(engine, deferred.d_intermediate, sum,
                               joint ? ops::Write::accumulate : ops::Write::replace,
                               of(context, rows, {}, deferred.intermediate_inner));
  group_.sum(sum, d_x.y);
  workspace.release(mark);
}

void GatedFeedForward::backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                                       const SavedActivations& of_forward, const WeightGradientInputs& of_backward,
                                       ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  const auto& deferred = static_cast<const Deferred&>(of_backward);
  const core::TokenRows& rows = rows_of(context, selection);
  add_output_gradients(engine, context, rows, saved, deferred, saved.activated);
  if (fuses_norm_sums()) ops::add_column_sums({}, norm_gradients(deferred), ops::Write::accumulate);
  intermediate_.backward_weight(engine, deferred.d_intermediate, group_.gather(x, saved.activated.rows),
                                of(context, rows, saved.intermediate_inner, deferred.intermediate_inner));
}

}  // namespace

std::shared_ptr<const SublayerKind> gated_feed_forward_sublayer(GatedFeedForwardSettings settings) {
  return std::make_shared<GatedFeedForwardKind>(std::move(settings));
}

}  // namespace bert_hpc::layers
