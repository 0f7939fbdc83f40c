#include "bert_hpc/model/bert.hpp"

#include <algorithm>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/ops/random_fill.hpp"

namespace bert_hpc::model {
namespace {

constexpr std::uint32_t embeddings_site = 0, head_site = 0xFFF0, first_block_site = 1, sites_per_block = 3;

layers::EmbeddingsSettings embeddings_settings(const BertConfig& config) {
  layers::EmbeddingsSettings settings;
  settings.vocabulary = config.vocab_size;
  settings.positions = config.max_position_embeddings;
  settings.types = config.type_vocab_size;
  settings.hidden = config.hidden_size;
  settings.layer_norm_epsilon = static_cast<float>(config.layer_norm_eps);
  settings.hidden_dropout = static_cast<float>(config.hidden_dropout_prob);
  settings.site = embeddings_site;
  return settings;
}

layers::EncoderBlockSettings block_settings(const BertConfig& config, std::int64_t index) {
  layers::EncoderBlockSettings settings;
  settings.prefix = "bert.encoder.layer." + std::to_string(index) + ".";
  settings.hidden = config.hidden_size;
  settings.heads = config.num_attention_heads;
  settings.intermediate = config.intermediate_size;
  settings.layer_norm_epsilon = static_cast<float>(config.layer_norm_eps);
  settings.hidden_dropout = static_cast<float>(config.hidden_dropout_prob);
  settings.attention_dropout = static_cast<float>(config.attention_probs_dropout_prob);
  settings.first_site = first_block_site + sites_per_block * static_cast<std::uint32_t>(index);
  return settings;
}

layers::HeadSettings head_settings(const BertConfig& config, HeadKind kind, std::int64_t outputs) {
  layers::HeadSettings settings;
  settings.kind = kind;
  settings.hidden = config.hidden_size;
  settings.outputs = kind == HeadKind::masked_lm ? static_cast<std::int64_t>(config.vocab_size) : outputs;
  settings.classifier_dropout = static_cast<float>(config.classifier_dropout.value_or(config.hidden_dropout_prob));
  settings.layer_norm_epsilon = static_cast<float>(config.layer_norm_eps);
  settings.site = head_site;
  return settings;
}

}  // namespace

std::vector<core::ParameterSpec> Bert::parameters(const BertConfig& config, HeadKind kind, std::int64_t outputs) {
  std::vector<core::ParameterSpec> specs;
  layers::Embeddings::declare(embeddings_settings(config), specs);
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    layers::EncoderBlock::declare(block_settings(config, i), specs);
  }
  layers::declare_head(head_settings(config, kind, outputs), specs);
  return specs;
}

Bert::Bert(const BertConfig& config, HeadKind kind, std::int64_t outputs, const core::ParameterStore& parameters)
    : config_(config),
      embeddings_(embeddings_settings(config), parameters),
      head_(layers::make_head(head_settings(config, kind, outputs), parameters)) {
  for (std::int64_t i = 0; i < config.num_hidden_layers; ++i) {
    const layers::EncoderBlockSettings settings = block_settings(config, i);
    blocks_.emplace_back(settings, parameters);
    const int first = parameters.find(settings.prefix + "attention.self.query.weight");
    block_begin_.push_back(parameters.slices()[static_cast<std::size_t>(first)].offset);
  }
  const char* first_of_head = kind == HeadKind::masked_lm ? "cls.predictions.bias" : "bert.pooler.dense.weight";
  head_begin_ = parameters.slices()[static_cast<std::size_t>(parameters.find(first_of_head))].offset;
  saved_blocks_.resize(blocks_.size());
}

void Bert::take_activations(core::Workspace& workspace, std::int64_t tokens) {
  workspace.release(0);
  saved_embeddings_ = embeddings_.take_saved(workspace, tokens);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    saved_blocks_[i] = blocks_[i].take_saved(workspace, tokens, i + 1 == blocks_.size() ? &selection_ : nullptr);
  }
  head_->take(workspace, selection_.rows.count);
}

void Bert::plan(core::Workspace& workspace, const layers::BatchBounds& bounds, bool training) {
  selection_.rows.count = bounds.selected;
  take_activations(workspace, bounds.tokens);
  if (!training) return;
  // As in backward(): two gradients that take turns, and what one block keeps.
  workspace.take<float>(bounds.selected, config_.hidden_size);
  workspace.take<float>(bounds.tokens, config_.hidden_size);
  workspace.take<float>(bounds.tokens, config_.hidden_size);
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const layers::RowSelection* selection = i + 1 == blocks_.size() ? &selection_ : nullptr;
    const std::int64_t mark = workspace.mark();
    blocks_[i].take_kept(workspace, bounds.tokens, selection);
    blocks_[i].plan_scratch(workspace, bounds.tokens, selection);
    workspace.release(mark);
  }
}

void Bert::forward(layers::Engine& engine, const layers::Pass& pass, core::Workspace& workspace) {
  selection_ = head_->rows(pass.batch);
  take_activations(workspace, pass.batch.tokens.count);
  embeddings_.forward(pass, saved_embeddings_);
  Tensor<const float> x = saved_embeddings_.output;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].forward(engine, pass, i + 1 == blocks_.size() ? &selection_ : nullptr, x, saved_blocks_[i]);
    x = saved_blocks_[i].output;
  }
  head_->forward(engine, pass, x);
}

void Bert::backward(layers::Engine& engine, const layers::Pass& pass, core::Workspace& workspace,
                    const std::function<void(std::int64_t)>& finished) {
  const std::int64_t tokens = pass.batch.tokens.count, hidden = config_.hidden_size, mark = workspace.mark();
  Tensor<float> d_y = workspace.take<float>(selection_.rows.count, hidden);
  Tensor<float> d_x = workspace.take<float>(tokens, hidden);
  Tensor<float> d_next = workspace.take<float>(tokens, hidden);

  head_->backward(engine, pass, saved_blocks_.back().output, d_y);
  finished(head_begin_);
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    const layers::RowSelection* selection = i + 1 == blocks_.size() ? &selection_ : nullptr;
    const Tensor<const float> x = i > 0 ? saved_blocks_[i - 1].output : saved_embeddings_.output;
    const std::int64_t block_mark = workspace.mark();
    layers::EncoderBlock::Kept kept = blocks_[i].take_kept(workspace, tokens, selection);
    blocks_[i].backward_input(engine, pass, selection, saved_blocks_[i], d_y, kept, d_x, workspace);
    blocks_[i].backward_weight(engine, selection, saved_blocks_[i], kept, x);
    workspace.release(block_mark);
    finished(block_begin_[i]);
    d_y = d_x;
    std::swap(d_x, d_next);
  }
  embeddings_.backward(pass, saved_embeddings_, d_y, d_x);
  finished(0);
  workspace.release(mark);
}

double training_flops(const BertConfig& config, std::int64_t tokens, double sum_of_squared_lengths) {
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto wide = static_cast<double>(config.intermediate_size);
  const auto layers = static_cast<double>(config.num_hidden_layers);
  const double weights = 4 * hidden * hidden + 2 * hidden * wide;  // of a block
  return layers * (6 * weights * static_cast<double>(tokens) + 12 * hidden * sum_of_squared_lengths);
}

void initialize_parameters(const core::ParameterStore& parameters, const BertConfig& config, std::uint64_t seed,
                           const std::vector<std::string>& only) {
  for (std::size_t i = 0; i < parameters.slices().size(); ++i) {
    const core::ParameterSlice& slice = parameters.slices()[i];
    if (!only.empty() && std::find(only.begin(), only.end(), slice.name) == only.end()) continue;
    const Tensor<float> value = parameters.value(static_cast<int>(i));
    const std::span<float> elements(value.data, static_cast<std::size_t>(slice.size));
    if (slice.name.ends_with("LayerNorm.weight")) {
      ops::fill(elements, 1.0f);
    } else if (slice.name.ends_with("bias")) {
      ops::fill(elements, 0.0f);
    } else {
      ops::fill_normal(elements, static_cast<float>(config.initializer_range), seed ^ core::fnv1a_64(slice.name));
    }
    if (slice.name.ends_with("word_embeddings.weight") && config.pad_token_id >= 0 &&
        config.pad_token_id < static_cast<std::int64_t>(slice.rows)) {
      ops::fill(elements.subspan(static_cast<std::size_t>(config.pad_token_id * slice.columns),
                                 static_cast<std::size_t>(slice.columns)),
                0.0f);
    }
  }
}

}  // namespace bert_hpc::model
