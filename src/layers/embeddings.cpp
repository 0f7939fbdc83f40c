#include "bert_hpc/layers/embeddings.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/embedding.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/layer_norm.hpp"

namespace bert_hpc::layers {

void Embeddings::declare(const EmbeddingsSettings& settings, std::vector<core::ParameterSpec>& specs,
                         const TensorRank& tensor_rank) {
  // The rows of a shard of the vocabulary are not the ids of tokens: there all rows count as touched.
  const bool row_sparse = settings.row_sparse() && tensor_rank.size == 1;
  const std::size_t first = specs.size();
  specs.push_back({.name = settings.word + ".weight",
                   .shape = {tensor_rank.share(settings.vocabulary), settings.hidden},
                   .shard = tensor_rank.rows(settings.vocabulary),
                   .row_sparse = row_sparse,
                   .zero_row = settings.padding_row});
  if (settings.positions > 0) {
    specs.push_back({.name = settings.position + ".weight",
                     .shape = {settings.first_position + settings.positions, settings.hidden},
                     .row_sparse = row_sparse,
                     .zero_row = settings.first_position - 1});
  }
  if (settings.types > 0) specs.push_back({settings.type + ".weight", {settings.types, settings.hidden}});
  for (std::size_t table = first; table < specs.size(); ++table) specs[table].lookup_only = settings.lookup_only;
  declare_norm(specs, settings.norm, settings.hidden, settings.norm_kind);
}

Embeddings::Embeddings(const EmbeddingsSettings& settings, const core::ParameterStore& parameters,
                       const TensorGroup& group)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      word_(parameters.find(settings.word + ".weight")),
      position_(settings.positions > 0 ? parameters.find(settings.position + ".weight") : -1),
      type_(settings.types > 0 ? parameters.find(settings.type + ".weight") : -1),
      norm_(parameters, settings.norm, settings.norm_kind) {
  core::require(settings.vocabulary >= group.tensor_rank().size,
                "embeddings: a tensor group larger than the vocabulary");
}

void Embeddings::allocate_saved(core::Workspace& workspace, std::int64_t tokens,
                                SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved.sum = group_.take(workspace, tokens, settings_.hidden, settings_.storage);
  saved.output = group_.take(workspace, tokens, settings_.hidden, settings_.storage);
  saved.statistics = workspace.take<float>(2, group_.capacity(tokens));
  if (settings_.token_dropout) saved.factors = workspace.take<float>(1, tokens);
}

/// saved.sum = word + position + type, words scaled by token dropout
void Embeddings::look_up(const core::MicroBatch& batch, Saved& saved) const {
  const core::SortedIds& ids = batch.sorted_ids;
  const Tensor<const float> word = parameters_.value_of_ids(word_, ids.ids, ids.unique), type = table(type_),
                            position = positions(position_table(batch.max_length));
  if (!group_.shared() && !settings_.token_dropout) {
    return ops::embedding_forward(batch, word, position, type, saved.sum);
  }
  const std::int64_t begin = group_.begin(batch.tokens.count);
  const Matrix words = group_.partial(saved.sum, batch.tokens.count);
  ops::word_embedding_forward(batch, word, group_.tensor_rank().begin(settings_.vocabulary), words);
  group_.sum(words, saved.sum);
  if (settings_.token_dropout) {
    ops::token_factors(batch, settings_.token_dropout, saved.factors.data);
    ops::scale_rows(saved.factors.data + begin, saved.sum);
  }
  ops::add_position_and_type(batch, begin, position, type, saved.sum);
}

void Embeddings::forward(Engine&, const StepContext& context, SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  look_up(context.batch, saved);
  const core::TokenRows rows = group_.own(context.batch.tokens);
  const core::Dropout drop = context.dropout(settings_.hidden_dropout, settings_.site),
                      none = context.dropout(0.0f, settings_.site);
  ops::residual_layer_norm_forward(settings_.sum_out ? drop : none, rows, saved.sum, nullptr, {}, norm_.gamma(),
                                   norm_.beta(), settings_.layer_norm_epsilon, saved.output,
                                   norm_.mean(saved.statistics), norm_.rstd(saved.statistics));
  if (!settings_.sum_out && drop.probability > 0) ops::dropout(drop, rows, saved.output, saved.output);
}

void Embeddings::backward_weight(Engine&, const StepContext& context, const SavedActivations& of_micro_batch,
                                 const StreamGradient& gradient) const {
  const auto& saved = static_cast<const Saved&>(of_micro_batch);
  const core::TokenRows rows = group_.own(context.batch.tokens);
  const core::Dropout drop = context.dropout(settings_.hidden_dropout, settings_.site),
                      none = context.dropout(0.0f, settings_.site);
  const Matrix& d_y = gradient.y;
  if (!settings_.sum_out && drop.probability > 0) ops::dropout(drop, rows, d_y, d_y);
  const NormGradient norm = {
      d_y, saved.sum, norm_.mean(saved.statistics), norm_.rstd(saved.statistics), norm_.d_gamma(), norm_.d_beta()};
  add_norm_gradients(group_, {&norm, 1});
  if (!trains_tables()) return;
  ops::residual_layer_norm_backward(none, rows, d_y, saved.sum, norm_.gamma(), norm_.mean(saved.statistics),
                                    norm_.rstd(saved.statistics), d_y, {}, gradient.residual);
  if (settings_.sum_out && drop.probability > 0) ops::dropout(drop, rows, d_y, d_y);
  const auto add = [&](Tensor<float> word, Tensor<float> position, Tensor<float> type) {
    ops::embedding_backward(context.batch, group_.gather(d_y, context.batch.tokens.count), word, positions(position),
                            type, group_.tensor_rank().begin(settings_.vocabulary));
  };
  if (settings_.token_dropout) {
    if (position_ >= 0 || type_ >= 0) add({}, table_gradient(position_), table_gradient(type_));
    ops::scale_rows(saved.factors.data + group_.begin(context.batch.tokens.count), d_y);
    add(table_gradient(word_), {}, {});
  } else {
    add(table_gradient(word_), table_gradient(position_), table_gradient(type_));
  }
  if (!settings_.row_sparse() || group_.shared()) return;
  const core::SortedIds& words = context.batch.sorted_ids;
  ops::mark_rows({parameters_.marks_of(word_)}, settings_.hidden, words.ids, words.unique);
  if (position_ < 0) return;
  std::uint8_t* const marks = parameters_.marks_of(position_);
  const std::int64_t before = settings_.first_position * settings_.hidden / ops::TouchedRows::line;
  ops::mark_first_rows({marks == nullptr ? nullptr : marks + before}, settings_.hidden, context.batch.max_length);
}

namespace {

class TokenEmbeddings final : public InputKind {
 public:
  explicit TokenEmbeddings(EmbeddingsSettings settings) : settings_(std::move(settings)) {}

  const EmbeddingsSettings& settings() const { return settings_; }
  std::int64_t hidden() const override { return settings_.hidden; }
  bool sum_out() const override { return settings_.sum_out; }
  std::int64_t looked_up() const override { return settings_.vocabulary; }
  void declare(std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) const override {
    Embeddings::declare(settings_, specs, tensor_rank);
  }
  LayerCosts costs(const BatchShape& batch, DataType storage) const override;
  std::unique_ptr<Input> make(const core::ParameterStore& parameters, const TensorGroup& group,
                              DataType storage) const override {
    EmbeddingsSettings settings = settings_;
    settings.storage = storage;
    return std::make_unique<Embeddings>(settings, parameters, group);
  }

 private:
  EmbeddingsSettings settings_;
};

LayerCosts TokenEmbeddings::costs(const BatchShape& batch, DataType storage) const {
  const double rows = static_cast<double>(core::bytes_of(storage) * settings_.hidden) * batch.tokens;
  LayerCosts costs;
  PassWork& work = costs.work;
  work.forward.bytes = 6 * rows;  // three tables read, their sum written, the layer norm's reading and writing
  work.backward_input.bytes = 3 * rows;
  work.backward_weight.bytes = 7 * rows;  // the gradient read, three tables' rows read and written
  if (settings_.token_dropout) {          // rows read and written once more
    work.forward.bytes += 2 * rows;
    work.backward_weight.bytes += 2 * rows;
  }
  for (Work* pass : {&work.forward, &work.backward_input, &work.backward_weight}) {
    pass->moved = pass->bytes;
    pass->passes = 1;
  }
  return costs;
}

}  // namespace

std::shared_ptr<const InputKind> token_embeddings(EmbeddingsSettings settings) {
  return std::make_shared<TokenEmbeddings>(std::move(settings));
}

const EmbeddingsSettings& embeddings_settings(const InputKind& input) {
  const auto* const embeddings = dynamic_cast<const TokenEmbeddings*>(&input);
  core::require(embeddings != nullptr, "the model's input is not of token embeddings");
  return embeddings->settings();
}

}  // namespace bert_hpc::layers
