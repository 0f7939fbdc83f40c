#include "bert_hpc/layers/heads.hpp"

#include <algorithm>

#include "bert_hpc/ops/losses.hpp"
#include "bert_hpc/ops/span_cross_entropy.hpp"
#include "sequence_head.hpp"
#include "token_head.hpp"
#include "vocabulary_head.hpp"

namespace bert_hpc::layers {

void cross_entropy_loss(const LossInput& in) {
  const std::int32_t* const classes = in.targets<core::ClassTargets>().data;
  const ops::CrossEntropyOptions& options = in.settings.classes;
  if (!options.is_plain()) {
    return ops::weighted_cross_entropy(in.logits(), classes, options, in.scale, in.row_losses, in.d_logits());
  }
  ops::cross_entropy(in.logits(), classes, in.scale, in.row_losses, in.d_logits());
}

void squared_error_loss(const LossInput& in) {
  ops::squared_error(in.logits(), in.targets<core::ValueTargets>().data, in.scale, in.row_losses, in.d_logits());
}

void span_loss(const LossInput& in) {
  ops::span_cross_entropy(in.logits(), in.batch.tokens.offsets, in.batch.lengths, in.batch.sequences,
                          in.targets<core::SpanTargets>().data, in.scale, in.row_losses, in.d_logits());
}

namespace {

template <class AnyHead>
std::unique_ptr<Head> make(const HeadSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group) {
  return std::make_unique<AnyHead>(settings, parameters, group);
}

/// Products of `elements` weights in all, and `activations` elements per row that they and what is between them move.
LayerCosts costs_of_products(const HeadSettings& settings, const BatchShape& batch, double elements,
                             double activations) {
  const auto hidden = static_cast<double>(settings.hidden), outputs = static_cast<double>(settings.outputs);
  const auto element = static_cast<double>(core::bytes_of(settings.storage));
  const double products = 2 * batch.logit_positions * elements, weights = sizeof(float) * elements;
  const double moved = batch.logit_positions * (element * activations + sizeof(float) * 3 * outputs);
  LayerCosts costs;
  costs.work.forward = {.flops = products, .bytes = moved + weights, .moved = moved, .passes = 1};
  costs.work.backward_input = costs.work.forward;
  costs.work.backward_weight = {.flops = products, .bytes = moved + 2 * weights, .moved = moved, .passes = 1};
  costs.saved_bytes = element * batch.logit_positions * (activations - hidden + outputs);
  return costs;
}

/// A dense layer and one to the outputs, and so many matrices (rows, hidden).
LayerCosts costs_of_two_products(const HeadSettings& settings, const BatchShape& batch, double matrices) {
  const auto hidden = static_cast<double>(settings.hidden), outputs = static_cast<double>(settings.outputs);
  return costs_of_products(settings, batch, hidden * (hidden + outputs), matrices * hidden);
}

/// A layer to the outputs, and dropout before it.
LayerCosts costs_of_one_product(const HeadSettings& settings, const BatchShape& batch) {
  const auto hidden = static_cast<double>(settings.hidden), outputs = static_cast<double>(settings.outputs);
  return costs_of_products(settings, batch, hidden * outputs, (settings.classifier_dropout > 0 ? 2 : 1) * hidden);
}

LayerCosts costs_of_sequence_head(const HeadSettings& settings, const BatchShape& batch) {
  if (settings.dense.empty()) return costs_of_one_product(settings, batch);
  const int more = (settings.input_dropout > 0 ? 1 : 0) + (settings.activation == Activation::gelu ? 1 : 0) +
                   (settings.norms_dense ? 2 : 0);
  if (settings.pools_dense) {
    BatchShape all = batch;
    all.logit_positions = batch.tokens;
    const auto hidden = static_cast<double>(settings.hidden);
    LayerCosts costs = costs_of_products(settings, all, hidden * hidden, (4 + more) * hidden);
    const LayerCosts classifier = costs_of_one_product(settings, batch);
    costs.work += classifier.work;
    costs.saved_bytes += classifier.saved_bytes;
    return costs;
  }
  LayerCosts costs = costs_of_two_products(settings, batch, 4 + more);
  if (settings.pooling) {
    const double rows = static_cast<double>(core::bytes_of(settings.storage) * settings.hidden) * batch.tokens;
    for (Work* const pass : {&costs.work.forward, &costs.work.backward_input}) {
      pass->bytes += rows;
      pass->moved += rows;
    }
  }
  return costs;
}

LayerCosts costs_of_token_head(const HeadSettings& settings, const BatchShape& batch) {
  return settings.dense_of_tokens ? costs_of_sequence_head(settings, batch) : costs_of_one_product(settings, batch);
}

/// Costs of schedules that compute gradients of weights together with those of inputs.
LayerCosts costs_of_vocabulary_head(const HeadSettings& settings, const BatchShape& batch) {
  const auto hidden = static_cast<double>(settings.hidden), outputs = static_cast<double>(settings.outputs);
  const auto decoded = static_cast<double>(settings.decoded());
  LayerCosts costs = settings.dense.empty()
                         ? costs_of_products(settings, batch, hidden * outputs, hidden)
                         : costs_of_products(settings, batch, decoded * (hidden + outputs), hidden + 3 * decoded);
  if (settings.rows_at_once > 0 && !settings.reads_all_logits) {
    const double others = std::max(0.0, batch.logit_positions - static_cast<double>(settings.rows_at_once));
    costs.saved_bytes -= static_cast<double>(core::bytes_of(settings.storage)) * others * outputs;
  }
  return costs;
}

void declare_sequence_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                           const TensorRank& tensor_rank) {
  return settings.dense.empty() ? TokenHead::declare(settings, specs, tensor_rank)
                                : SequenceHead::declare(settings, specs, tensor_rank);
}

void declare_token_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                        const TensorRank& tensor_rank) {
  return settings.dense_of_tokens ? SequenceHead::declare(settings, specs, tensor_rank)
                                  : TokenHead::declare(settings, specs, tensor_rank);
}

std::unique_ptr<Head> make_token_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                      const TensorGroup& group) {
  if (settings.dense_of_tokens) return std::make_unique<SequenceHead>(settings, parameters, group);
  return std::make_unique<TokenHead>(settings, parameters, group);
}

std::unique_ptr<Head> make_sequence_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                         const TensorGroup& group) {
  if (settings.dense.empty()) return std::make_unique<TokenHead>(settings, parameters, group);
  return std::make_unique<SequenceHead>(settings, parameters, group);
}

}  // namespace

HeadKind sequence_head(LossFunction loss) {
  return {.class_suffix = "ForSequenceClassification",
          .loss = loss,
          .declare = declare_sequence_head,
          .make = make_sequence_head,
          .costs = costs_of_sequence_head};
}

HeadKind masked_lm_head() {
  return {.class_suffix = "ForMaskedLM",
          .predicts_tokens = true,
          .loss = VocabularyHead::loss,
          .declare = VocabularyHead::declare,
          .make = make<VocabularyHead>,
          .costs = costs_of_vocabulary_head};
}

HeadKind causal_lm_head() {
  HeadKind kind = masked_lm_head();
  kind.class_suffix = "LMHeadModel";
  kind.predicts_next_tokens = true;
  return kind;
}

HeadKind token_head() {
  return {.class_suffix = "ForTokenClassification",
          .is_token_head = true,
          .loss = cross_entropy_loss,
          .declare = declare_token_head,
          .make = make_token_head,
          .costs = costs_of_token_head};
}

HeadKind span_head() {
  return {.class_suffix = "ForQuestionAnswering",
          .reads_all_tokens = true,
          .is_token_head = true,
          .classifier = "qa_outputs",
          .fixed_outputs = 2,
          .loss = span_loss,
          .declare = declare_token_head,
          .make = make_token_head,
          .costs = costs_of_token_head};
}

void declare_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                  const TensorRank& tensor_rank) {
  settings.kind.declare(settings, specs, tensor_rank);
}

LayerCosts head_costs(const HeadSettings& settings, const BatchShape& batch) {
  return settings.kind.costs(settings, batch);
}

std::unique_ptr<Head> make_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                const TensorGroup& group) {
  return settings.kind.make(settings, parameters, group);
}

void apply_loss(LossFunction loss, const Head& head, const StepContext& context, float scale,
                const LossSettings& settings, Head::SavedActivations& saved) {
  saved.scale = scale;
  const std::optional<VocabularyShare> share = head.vocabulary_share(saved);
  loss({.batch = context.batch,
        .settings = settings,
        .scale = scale,
        .training = context.training,
        .outputs = saved.logits,
        .sequence_logits = saved.sequence_logits,
        .row_losses = saved.row_losses.data,
        .scratch = saved.scratch.data,
        .share = share ? &*share : nullptr,
        .in_parts = saved.in_parts});
}

}  // namespace bert_hpc::layers
