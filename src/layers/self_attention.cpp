#include "self_attention.hpp"

#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/attention_observer.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/repeated_heads.hpp"
#include "sublayer_kind.hpp"

namespace bert_hpc::layers {

using core::TokenRows;
using ops::Write;

namespace {

constexpr std::uint32_t output_site = 1;  // that of the attention itself is 0
constexpr std::uint32_t attention_input = 0;

/// Columns of the keys, and of the values, of the whole layer.
std::int64_t key_columns(const SublayerSettings& settings, const AttentionSettings& own) {
  return settings.hidden / own.sharing();
}

/// The kind of sublayer that a SelfAttention computes.
class AttentionKind final : public KindOf<SelfAttention, AttentionSettings> {
 public:
  using KindOf::KindOf;

  std::string name() const override { return "attention"; }
  bool mixes_tokens() const override { return true; }
  bool has_relative_positions() const override { return own_.relative_positions.has_value(); }
  std::vector<SublayerLinear> linear_layers(const SublayerSettings& settings) const override {
    const std::int64_t hidden = settings.hidden, keys = key_columns(settings, own_);
    return {{.name = own_.query, .in = hidden, .out = hidden, .usually_adapted = true},
            {.name = own_.key, .in = hidden, .out = keys, .all_tokens = true},
            {.name = own_.value, .in = hidden, .out = keys, .all_tokens = true, .usually_adapted = true},
            {.name = settings.output, .in = hidden, .out = hidden}};
  }
  LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const override;
  bool computes_like(const SublayerKind& other) const override {
    const auto* const same = dynamic_cast<const AttentionKind*>(&other);
    return same != nullptr && same->own_.heads == own_.heads && same->own_.sharing() == own_.sharing() &&
           same->own_.dropout == own_.dropout && same->own_.mask == own_.mask &&
           same->own_.rotary_theta == own_.rotary_theta &&
           same->own_.position_bias.has_value() == own_.position_bias.has_value() &&
           same->own_.relative_positions.has_value() == own_.relative_positions.has_value();
  }
};

/// Keys and values are computed of all tokens, the rest of the rows that come out.
LayerCosts AttentionKind::costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const {
  const auto hidden = static_cast<double>(settings.hidden), heads = static_cast<double>(own_.heads);
  const auto element = static_cast<double>(core::bytes_of(settings.storage));
  const double rows = selects ? batch.logit_positions : batch.tokens,
               share = batch.tokens > 0 ? rows / batch.tokens : 0;
  const auto keys = static_cast<double>(key_columns(settings, own_));
  const double key_value = 2 * hidden * keys, weights = 2 * hidden * hidden + key_value;
  const double repeated = own_.sharing() > 1 ? 2 * hidden : 0;  // columns of the copies that attention reads
  const double pairs = ops::masked_pairs(own_.mask, batch.squared_lengths, batch.tokens);
  const bool relative = own_.relative_positions.has_value();
  const double buckets = relative ? 2.0 * own_.relative_positions->span : 0;
  const double products_of_pairs = relative ? 4 : 2;
  LayerCosts costs;
  costs.work = work_of_products(
      2 * (batch.tokens * key_value + rows * (weights - key_value)), 2 * products_of_pairs * hidden * pairs * share,
      element * (hidden * (batch.tokens * 7 + rows * 5) + 2 * batch.tokens * repeated),
      element * (hidden * (batch.tokens * 3 + rows * 3) + batch.tokens * repeated), weights, rows * heads);
  costs.saved_bytes = element * (batch.tokens * (2 * keys + repeated) + rows * (4 * hidden + heads + 2));
  costs.deferred_bytes = element * (batch.tokens * 2 * keys + rows * 3 * hidden);
  if (own_.position_bias) costs.deferred_bytes += sizeof(float) * heads * 2 * batch.tokens;
  // The products that make keys and queries of distances are left out of the work: it is given per token, they are not.
  costs.saved_bytes += buckets * hidden * (2 * sizeof(float) + 3 * element);
  costs.deferred_bytes += buckets * hidden * (sizeof(float) + 2 * element);
  return costs;
}

}  // namespace

std::shared_ptr<const SublayerKind> attention_sublayer(AttentionSettings settings) {
  return std::make_shared<AttentionKind>(std::move(settings));
}

void SelfAttention::declare(const SublayerSettings& settings, const AttentionSettings& own,
                            std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) {
  const std::int64_t hidden = settings.hidden, keys = key_columns(settings, own);
  // Columns of queries, keys and values are rows of their weights.
  const std::vector<AdaptedLayer> layers = {
      {own.query, hidden, hidden}, {own.key, hidden, keys}, {own.value, hidden, keys}};
  for (const AdaptedLayer& layer : layers) {
    specs.push_back({.name = layer.name + ".weight",
                     .shape = {tensor_rank.share(layer.out), hidden},
                     .joined = &layer != &layers.front(),
                     .shard = tensor_rank.rows(layer.out),
                     .one_product = !own.relative_positions});  // that of relative positions adds to its gradient
  }
  for (const AdaptedLayer& layer : layers) {
    if (!settings.biases) break;
    declare_vector(specs, {.name = layer.name + ".bias",
                           .shape = {tensor_rank.share(layer.out)},
                           .joined = &layer != &layers.front(),
                           .shard = tensor_rank.rows(layer.out)});
  }
  if (own.position_bias) DistanceBias::declare(*own.position_bias, own.heads, tensor_rank, specs);
  if (own.relative_positions) RelativeEmbeddings::declare(settings, *own.relative_positions, specs);
  declare_output(settings, hidden, specs, tensor_rank);
  const std::size_t adapters = specs.size();
  declare_adapters(settings, layers, LayerSplit::outputs, specs, tensor_rank);
  for (std::size_t i = adapters; own.relative_positions && i < specs.size(); ++i) specs[i].one_product = false;
  declare_adapters(settings, {{settings.output, hidden, hidden}}, LayerSplit::inputs, specs, tensor_rank);
}

SelfAttention::SelfAttention(const SublayerSettings& settings, const AttentionSettings& own,
                             const core::ParameterStore& parameters, const TensorGroup& group)
    : ResidualSublayer(settings, parameters, group, output_site),
      own_(own),
      heads_(group.tensor_rank().share(own.heads)),
      width_(group.tensor_rank().share(settings.hidden)),
      key_width_(group.tensor_rank().share(key_columns(settings, own))),
      query_key_value_(linear(own.query, attention_input, 3)),
      query_(linear(own.query, attention_input)),
      key_value_(linear(own.key, attention_input, 2)) {
  const std::int64_t key_heads = own.heads / own.sharing();
  core::require(key_heads % group.tensor_rank().size == 0, "attention: heads that the tensor group cannot share out");
  if (own.rotary_theta > 0) frequencies_ = ops::RotaryFrequencies::of(own.rotary_theta, settings.hidden / own.heads);
  if (own.position_bias) bias_ = DistanceBias(*own.position_bias, parameters);
  if (!own.relative_positions) return;
  LinearSettings query_key = linear_settings(own.query, attention_input, 2);
  query_key.in_encoder = false;
  relative_.emplace(settings, *own.relative_positions, parameters, group, query_key);
}

void SelfAttention::rotate(ops::Rotation rotation, const StepContext& context, const RowSelection* selection,
                           const Matrix& query, const Matrix& key_value, const Matrix& query_key_value) const {
  if (frequencies_.pairs == 0) return;
  const TokenRows& tokens = context.batch.tokens;
  if (selection == nullptr) {
    return ops::rotate(frequencies_, rotation, tokens, query_key_value.column_range(0, width_ + key_width_));
  }
  ops::rotate(frequencies_, rotation, selection->rows, query);
  ops::rotate(frequencies_, rotation, tokens, key_value.column_range(0, key_width_));
}

SelfAttention::Inner SelfAttention::take_inner(core::Workspace& workspace, std::int64_t tokens,
                                               const RowSelection* selection) const {
  const DataType type = settings_.storage;
  if (selection == nullptr) return {.query_key_value = query_key_value_.take_inner(workspace, tokens, type)};
  return {.query = query_.take_inner(workspace, selection->rows.count, type),
          .key_value = key_value_.take_inner(workspace, tokens, type)};
}

void SelfAttention::allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                   std::int64_t dropout_tiles, SavedActivations& of_micro_batch) const {
  const std::int64_t rows = row_count(tokens, selection);
  const DataType type = settings_.storage;
  auto& saved = static_cast<Saved&>(of_micro_batch);
  saved = {};
  if (selection != nullptr) {
    saved.x_selected = workspace.take(rows, settings_.hidden, type);
    if (settings_.sum_in) saved.residual_selected = workspace.take(rows, settings_.hidden, type);
    saved.query = workspace.take(rows, width_, type);
    saved.key_value = workspace.take(tokens, 2 * key_width_, type);
  } else {
    saved.query_key_value = workspace.take(tokens, width_ + 2 * key_width_, type);
    saved.query = saved.query_key_value.column_range(0, width_);
    saved.key_value = saved.query_key_value.column_range(width_, 2 * key_width_);
  }
  if (own_.sharing() > 1) saved.repeated = workspace.take(tokens, 2 * width_, type);
  saved.inner = take_inner(workspace, tokens, selection);
  saved.context = workspace.take(rows, width_, type);
  saved.log_sum_exp = workspace.take<float>(heads_, rows);
  if (own_.dropout > 0.0f && dropout_tiles > 0) {
    saved.kept_pairs = workspace.take<std::uint64_t>(heads_ * dropout_tiles, rows);
    saved.dropout_bytes = saved.kept_pairs.size() * static_cast<std::int64_t>(sizeof(std::uint64_t));
  }
  if (relative_) relative_->allocate_saved(workspace, type, saved.relative);
  allocate_output(workspace, rows, saved);
}

void SelfAttention::allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                      WeightGradientInputs& of_micro_batch) const {
  const std::int64_t rows = row_count(tokens, selection);
  const DataType type = settings_.storage;
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  deferred = {};
  allocate_product(workspace, rows, deferred);
  deferred.inner = take_inner(workspace, tokens, selection);
  if (selection != nullptr) {
    deferred.d_query = workspace.take(rows, width_, type);
    deferred.d_key_value = workspace.take(tokens, 2 * key_width_, type);
  } else {
    deferred.d_query_key_value = workspace.take(tokens, width_ + 2 * key_width_, type);
    deferred.d_query = deferred.d_query_key_value.column_range(0, width_);
    deferred.d_key_value = deferred.d_query_key_value.column_range(width_, 2 * key_width_);
  }
  if (bias_.is_trained()) deferred.d_bias = workspace.take<float>(heads_, 2 * tokens);
  if (sums_distances()) relative_->allocate_deferred(workspace, type, deferred.relative);
}

void SelfAttention::plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const {
  const std::int64_t mark = workspace.mark();
  const std::int64_t rows = row_count(tokens, selection);
  workspace.take(rows, width_, settings_.storage);
  if (own_.sharing() > 1) workspace.take(tokens, 2 * width_, settings_.storage);
  if (selection != nullptr) workspace.take(rows, settings_.hidden, group_.partial_type(settings_.storage));
  if (sums_distances()) workspace.take<float>(4 * tokens, width_);
  workspace.release(mark);
}

ops::AttentionInputs SelfAttention::inputs(const StepContext& context, const TokenRows& rows,
                                           const Saved& saved) const {
  const ConstMatrix key_value = own_.sharing() > 1 ? saved.repeated : saved.key_value;
  return {.extents = {.sequences = context.batch.sequences,
                      .heads = heads_,
                      .head_dim = settings_.hidden / own_.heads,
                      .max_length = context.batch.max_length,
                      .first_head = group_.tensor_rank().begin(own_.heads)},
          .queries = rows,
          .keys = context.batch.tokens,
          .dropout = context.dropout(own_.dropout, settings_.first_site),
          .q = saved.query,
          .k = key_value.column_range(0, width_),
          .v = key_value.column_range(width_, width_),
          .mask = own_.mask,
          .real_keys = context.batch.lengths,
          .bias = bias_.view(),
          .relative = relative_ ? relative_->view(saved.relative) : ops::RelativePositions()};
}

std::vector<LinearWeight> SelfAttention::linear_weights(bool selects) const {
  std::vector<LinearWeight> weights;
  if (selects) {
    query_.list_weights(true, weights);
    key_value_.list_weights(false, weights);
  } else {
    query_key_value_.list_weights(false, weights);
  }
  output_.list_weights(selects, weights);
  return weights;
}

std::vector<LinearWeight> SelfAttention::other_weights() const {
  std::vector<LinearWeight> weights;
  if (relative_) relative_->list_weights(weights);
  return weights;
}

void SelfAttention::forward(Engine& engine, const StepContext& context, const RowSelection* selection, const Stream& x,
                            SavedActivations& of_micro_batch) const {
  auto& saved = static_cast<Saved&>(of_micro_batch);
  const TokenRows& rows = rows_of(context, selection);
  const std::int64_t tokens = context.batch.tokens.count;
  ConstMatrix residual = x.residual;
  if (selection != nullptr && settings_.sum_in) {
    ops::gather_rows(group_.gather(x.residual, tokens), selection->index, saved.residual_selected);
    residual = group_.own(saved.residual_selected);
  }
  const ConstMatrix all = group_.gather(x.y, tokens);
  if (selection != nullptr) {
    ops::gather_rows(all, selection->index, saved.x_selected);
    if (!settings_.sum_in) residual = group_.own(saved.x_selected);
    query_.forward(engine, saved.x_selected, saved.query, of(context, rows, saved.inner.query));
    key_value_.forward(engine, all, saved.key_value, of(context, context.batch.tokens, saved.inner.key_value));
  } else {
    query_key_value_.forward(engine, all, saved.query_key_value, of(context, rows, saved.inner.query_key_value));
  }
  rotate(ops::Rotation::forward, context, selection, saved.query, saved.key_value, saved.query_key_value);
  if (own_.sharing() > 1) {
    ops::repeat_heads(saved.key_value, settings_.hidden / own_.heads, own_.sharing(), saved.repeated);
  }
  if (relative_) relative_->forward(engine, context, saved.relative);
  const ops::AttentionInputs in = inputs(context, rows, saved);
  if (context.attention_observer != nullptr) {
    context.attention_observer->forward({settings_.block, own_.heads, in}, context);
  }
  engine.attention.forward(in, saved.results());
  finish_forward(engine, context, rows, saved.context, residual, saved);
}

void SelfAttention::backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                                   const SavedActivations& of_forward, const StreamGradient& d_y,
                                   WeightGradientInputs& of_micro_batch, const StreamGradient& d_x,
                                   core::Workspace& workspace) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  auto& deferred = static_cast<Deferred&>(of_micro_batch);
  const TokenRows& rows = rows_of(context, selection);
  const std::int64_t mark = workspace.mark(), tokens = context.batch.tokens.count;
  const Matrix d_context = workspace.take(rows.count, width_, settings_.storage);
  // One gradient begins with the residual's and takes that of the queries, keys and values too, unless the residual is
  // a sum; if every row is computed on one rank it is d_x itself.
  const bool joint = !settings_.sum_in;
  const Write add = joint ? Write::accumulate : Write::replace;
  Matrix d_rows;  // of the computed rows
  if (selection != nullptr) {
    d_rows = workspace.take(rows.count, settings_.hidden, group_.partial_type(settings_.storage));
    group_.keep_own(d_rows);
    begin_backward(context, rows, saved, d_y, deferred, group_.own(d_rows));
    if (!joint) add_to_all_tokens(d_rows, *selection, tokens, d_x.residual);
  } else if (joint) {
    d_rows = group_.partial(d_x.y, tokens);
    group_.keep_own(d_rows);
    begin_backward(context, rows, saved, d_y, deferred, group_.own(d_rows));
  } else {
    begin_backward(context, rows, saved, d_y, deferred, d_x.residual);
  }
  output_.backward_input(engine, group_.gather(deferred.d_product, rows.count), d_context, Write::replace,
                         of(context, rows, {}, deferred.output_inner));
  const ops::AttentionInputs in = inputs(context, rows, saved);
  const Matrix d_key_value =
      own_.sharing() > 1 ? workspace.take(tokens, 2 * width_, settings_.storage) : deferred.d_key_value;
  const Matrix d_key = d_key_value.column_range(0, width_);
  ops::AttentionGradients gradients = {deferred.d_query, d_key, d_key_value.column_range(width_, width_),
                                       deferred.d_bias};
  if (sums_distances()) {
    const Tensor<float> sums = workspace.take<float>(4 * tokens, width_);
    gradients.d_relative_keys = sums.row_range(0, 2 * tokens);
    gradients.d_relative_queries = sums.row_range(2 * tokens, 2 * tokens);
  }
  engine.attention.backward(in, saved.results(), d_context, gradients);
  if (sums_distances()) {
    relative_->backward_input(context, gradients.d_relative_keys, gradients.d_relative_queries, deferred.relative);
  }
  if (context.attention_observer != nullptr) {
    context.attention_observer->backward({settings_.block, own_.heads, in}, context, deferred.d_query, d_key);
  }
  if (own_.sharing() > 1) {
    ops::sum_repeated_heads(d_key_value, settings_.hidden / own_.heads, own_.sharing(), deferred.d_key_value);
  }
  rotate(ops::Rotation::gradient, context, selection, deferred.d_query, deferred.d_key_value,
         deferred.d_query_key_value);
  const Matrix sum = group_.partial(d_x.y, tokens);
  if (selection != nullptr) {
    query_.backward_input(engine, deferred.d_query, d_rows, add, of(context, rows, {}, deferred.inner.query));
    key_value_.backward_input(engine, deferred.d_key_value, sum, Write::replace,
                              of(context, context.batch.tokens, {}, deferred.inner.key_value));
    ops::scatter_add_rows(d_rows, selection->index, sum);
  } else {
    query_key_value_.backward_input(engine, deferred.d_query_key_value, sum, add,
                                    of(context, rows, {}, deferred.inner.query_key_value));
  }
  group_.sum(sum, d_x.y);
  workspace.release(mark);
}

/// all (piece of the tokens, hidden) = d_rows in the selected rows, zeros in others.
void SelfAttention::add_to_all_tokens(const Matrix& d_rows, const RowSelection& selection, std::int64_t tokens,
                                      const Matrix& all) const {
  const Matrix sum = group_.partial(all, tokens);
  core::fill_on_device(sum.data, 0, static_cast<std::size_t>(sum.size() * core::bytes_of(sum.type)));
  ops::scatter_add_rows(d_rows, selection.index, sum);
  group_.sum(sum, all);
}

void SelfAttention::backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                                    const SavedActivations& of_forward, const WeightGradientInputs& of_backward,
                                    ConstMatrix x) const {
  const auto& saved = static_cast<const Saved&>(of_forward);
  const auto& deferred = static_cast<const Deferred&>(of_backward);
  const TokenRows& rows = rows_of(context, selection);
  add_output_gradients(engine, context, rows, saved, deferred, saved.context);
  if (bias_.is_trained()) bias_.backward_weight(context.batch.sequences, context.batch.tokens, deferred.d_bias);
  const ConstMatrix all = group_.gather(x, saved.key_value.rows);
  const bool selects = selection != nullptr, fused = fuses_bias_sums();
  const ops::ColumnSums norm = norm_gradients(deferred);
  const ops::ColumnSums biases[] = {{selects ? deferred.d_query : deferred.d_query_key_value,
                                     {(selects ? query_ : query_key_value_).bias_gradient()}},
                                    {deferred.d_key_value, {key_value_.bias_gradient()}}};
  const std::size_t sums = !fused ? 0 : selects ? 2 : 1;
  if (sums > 0 || norm.wanted()) ops::add_column_sums({biases, sums}, norm, Write::accumulate);
  const auto add_gradients = [&](const Linear& layer, ConstMatrix d_y, ConstMatrix input, const LinearRows& kept) {
    if (fused) return layer.backward_weight_without_bias(engine, d_y, input, kept);
    layer.backward_weight(engine, d_y, input, kept);
  };
  if (selects) {
    add_gradients(query_, deferred.d_query, saved.x_selected,
                  of(context, rows, saved.inner.query, deferred.inner.query));
    add_gradients(key_value_, deferred.d_key_value, all,
                  of(context, context.batch.tokens, saved.inner.key_value, deferred.inner.key_value));
  } else {
    add_gradients(query_key_value_, deferred.d_query_key_value, all,
                  of(context, rows, saved.inner.query_key_value, deferred.inner.query_key_value));
  }
  if (sums_distances()) relative_->backward_weight(engine, context, saved.relative, deferred.relative);
}

}  // namespace bert_hpc::layers
