// The head of BertForPreTraining: VocabularyHead of masked tokens, and SequenceHead of the first token of each
// sequence, whose two classes say whether the second text of a pair follows the first. The encoder hands on both kinds
// of rows together, sequence by sequence (core::Targets).
#include <algorithm>
#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/losses.hpp"
#include "sequence_head.hpp"
#include "vocabulary_head.hpp"

namespace bert_hpc::layers {
namespace {

class PretrainingHead : public Head {
 public:
  static void declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                      const TensorRank& tensor_rank);
  /// Cross entropy of masked tokens, and of sequences with the weight LossSettings::sequence_weight.
  static void loss(const LossInput& input);
  PretrainingHead(const HeadSettings& settings, const core::ParameterStore& parameters, const TensorGroup& group);

  std::unique_ptr<SavedActivations> make_saved() const override;
  void allocate_saved(core::Workspace& workspace, const HeadBatch& rows, SavedActivations& saved) const override;
  std::vector<LinearWeight> linear_weights() const override;
  void forward(Engine& engine, const StepContext& context, ConstMatrix x, SavedActivations& saved) const override;
  std::optional<VocabularyShare> vocabulary_share(const SavedActivations& saved) const override;
  void predict(SavedActivations& saved, std::int32_t* predicted) const override;
  void backward_input(Engine& engine, const StepContext& context, SavedActivations& saved, Matrix d_x) const override;
  void backward_weight(Engine& engine, const SavedActivations& saved, ConstMatrix x) const override;

 private:
  /// One of the two heads, with its rows of the encoder's result.
  struct Part {
    std::unique_ptr<SavedActivations> saved;
    Matrix x, d_x;    ///< (this rank's piece of the part's rows, hidden)
    Matrix d_summed;  ///< the same in the type of sums over ranks, if that is another
  };
  struct Saved : SavedActivations {
    Part tokens, sequences;
  };

  void allocate_part(core::Workspace& workspace, const Head& head, const HeadBatch& rows, Part& part) const;
  void scatter(const core::TargetPart& rows, const Part& part, const Matrix& sum) const;

  HeadSettings settings_;
  TensorGroup group_;
  VocabularyHead tokens_;
  SequenceHead sequences_;
};

const HeadSettings& settings_of_sequences(const HeadSettings& settings) {
  core::require(settings.sequences != nullptr, "pretraining head: the family names its layers");
  return *settings.sequences;
}

/// The micro-batch as one of the two heads sees it: with the rows of its part alone.
core::MicroBatch part_of(const core::MicroBatch& batch, const core::TargetPart& part) {
  core::MicroBatch own = batch;
  own.targets = {.rows = part.rows};
  return own;
}

/// The same with targets, which begin with those of the masked tokens.
core::MicroBatch masked_part_of(const core::MicroBatch& batch) {
  core::MicroBatch own = part_of(batch, batch.targets.masked);
  own.targets.list = batch.targets.list;
  return own;
}

StepContext with_batch(const StepContext& context, const core::MicroBatch& batch) {
  return {.batch = batch,
          .training = context.training,
          .key0 = context.key0,
          .key1 = context.key1,
          .number = context.number,
          .forward_only = context.forward_only};
}

void PretrainingHead::declare(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs,
                              const TensorRank& tensor_rank) {
  VocabularyHead::declare(settings, specs, tensor_rank);
  SequenceHead::declare(settings_of_sequences(settings), specs, tensor_rank);
}

PretrainingHead::PretrainingHead(const HeadSettings& settings, const core::ParameterStore& parameters,
                                 const TensorGroup& group)
    : settings_(settings),
      group_(group),
      tokens_(settings, parameters, group),
      sequences_(settings_of_sequences(settings), parameters, group) {}

std::unique_ptr<Head::SavedActivations> PretrainingHead::make_saved() const {
  auto saved = std::make_unique<Saved>();
  saved->tokens.saved = tokens_.make_saved();
  saved->sequences.saved = sequences_.make_saved();
  return saved;
}

void PretrainingHead::allocate_part(core::Workspace& workspace, const Head& head, const HeadBatch& rows,
                                    Part& part) const {
  head.allocate_saved(workspace, rows, *part.saved);
  part.x = group_.take(workspace, rows.selected, settings_.hidden, settings_.storage);
  part.d_x = group_.take(workspace, rows.selected, settings_.hidden, settings_.storage);
  const DataType summed = group_.partial_type(settings_.storage);
  part.d_summed =
      summed == settings_.storage ? Matrix() : group_.take(workspace, rows.selected, settings_.hidden, summed);
}

/// The part of tokens has memory for all rows, so that a plan for the most rows is large enough for a micro-batch with
/// fewer sequences.
void PretrainingHead::allocate_saved(core::Workspace& workspace, const HeadBatch& rows,
                                     SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const std::int64_t begin = workspace.mark();
  allocate_part(workspace, tokens_, rows, saved.tokens);
  const std::int64_t end = workspace.mark();
  workspace.release(begin);
  HeadBatch masked = rows, firsts = rows;
  masked.selected = std::max<std::int64_t>(0, rows.selected - rows.sequences);
  firsts.selected = rows.sequences;
  allocate_part(workspace, tokens_, masked, saved.tokens);
  workspace.release(end);
  allocate_part(workspace, sequences_, firsts, saved.sequences);
  saved.in_parts = saved.tokens.saved->in_parts;
  saved.logits = saved.tokens.saved->logits;
  saved.sequence_logits = saved.sequences.saved->logits.as<float>();
  saved.row_losses = workspace.take<float>(1, rows.selected);
  saved.tokens.saved->row_losses = Tensor<float>(saved.row_losses.data, 1, masked.selected);
}

std::vector<LinearWeight> PretrainingHead::linear_weights() const {
  std::vector<LinearWeight> weights = tokens_.linear_weights();
  for (LinearWeight& weight : sequences_.linear_weights()) weights.push_back(std::move(weight));
  return weights;
}

void PretrainingHead::forward(Engine& engine, const StepContext& context, ConstMatrix x,
                              SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::Targets& targets = context.batch.targets;
  const ConstMatrix all = group_.gather(x, targets.rows.count);
  const auto gather = [&](const core::TargetPart& rows, const Part& part) {
    ops::gather_rows(all, rows.index + group_.begin(rows.rows.count), part.x);
  };
  gather(targets.masked, saved.tokens);
  gather(targets.first, saved.sequences);
  const core::MicroBatch masked = masked_part_of(context.batch), first = part_of(context.batch, targets.first);
  tokens_.forward(engine, with_batch(context, masked), saved.tokens.x, *saved.tokens.saved);
  sequences_.forward(engine, with_batch(context, first), saved.sequences.x, *saved.sequences.saved);
}

std::optional<VocabularyShare> PretrainingHead::vocabulary_share(const SavedActivations& of_micro_batch) const {
  return tokens_.vocabulary_share(*static_cast<const Saved&>(of_micro_batch).tokens.saved);
}

void PretrainingHead::loss(const LossInput& in) {
  VocabularyHead::loss(in);
  const core::Targets& targets = in.batch.targets;
  const std::int64_t masked = targets.masked.rows.count;
  const float weight = in.settings.sequence_weight;
  const Matrix losses(Tensor<float>{in.row_losses + masked, 1, targets.first.rows.count});
  ops::cross_entropy(in.sequence_logits, targets.get<core::ClassTargets>().data + masked, weight * in.scale,
                     in.row_losses + masked, in.training ? Matrix(in.sequence_logits) : Matrix());
  if (weight != 1.0f) ops::scale(weight, losses);
}

void PretrainingHead::predict(SavedActivations& of_micro_batch, std::int32_t* predicted) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  tokens_.predict(*saved.tokens.saved, predicted);
  sequences_.predict(*saved.sequences.saved, predicted + saved.tokens.saved->row_losses.columns);
}

/// sum += the part's gradients, each at its row.
void PretrainingHead::scatter(const core::TargetPart& rows, const Part& part, const Matrix& sum) const {
  const bool converts = sum.type != part.d_x.type;
  if (converts) ops::copy(part.d_x, part.d_summed);
  ops::scatter_add_rows(converts ? part.d_summed : part.d_x, rows.index + group_.begin(rows.rows.count), sum);
}

void PretrainingHead::backward_input(Engine& engine, const StepContext& context, SavedActivations& of_micro_batch,
                                     Matrix d_x) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const core::Targets& targets = context.batch.targets;
  const core::MicroBatch masked = masked_part_of(context.batch), first = part_of(context.batch, targets.first);
  saved.tokens.saved->scale = saved.scale;
  tokens_.backward_input(engine, with_batch(context, masked), *saved.tokens.saved, saved.tokens.d_x);
  sequences_.backward_input(engine, with_batch(context, first), *saved.sequences.saved, saved.sequences.d_x);
  const Matrix sum = group_.partial(d_x, targets.rows.count);
  core::fill_on_device(sum.data, 0, static_cast<std::size_t>(sum.size() * core::bytes_of(sum.type)));
  scatter(targets.masked, saved.tokens, sum);
  scatter(targets.first, saved.sequences, sum);
  group_.sum(sum, d_x);
}

void PretrainingHead::backward_weight(Engine& engine, const SavedActivations& of_micro_batch, ConstMatrix) const {
  const auto& saved = static_cast<const Saved&>(of_micro_batch);
  tokens_.backward_weight(engine, *saved.tokens.saved, saved.tokens.x);
  sequences_.backward_weight(engine, *saved.sequences.saved, saved.sequences.x);
}

std::unique_ptr<Head> make(const HeadSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group) {
  return std::make_unique<PretrainingHead>(settings, parameters, group);
}

}  // namespace

/// Its costs count all rows as masked tokens, whose decoder outweighs what sequences have.
HeadKind pretraining_head() {
  HeadKind kind = masked_lm_head();
  kind.class_suffix = "ForPreTraining";
  kind.labels_sequences = true;
  kind.loss = PretrainingHead::loss;
  kind.declare = PretrainingHead::declare;
  kind.make = make;
  return kind;
}

}  // namespace bert_hpc::layers
