#include "self_attention.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::layers {

using core::TokenRows;
using ops::Write;

namespace {

constexpr const char* output_name = "attention.output.dense";
constexpr std::uint32_t site_in_block = 1;  // that of the attention itself is 0

}  // namespace

void SelfAttention::declare(const EncoderHalfSettings& settings, std::vector<core::ParameterSpec>& specs,
                            const TensorPlace& place) {
  const std::int64_t hidden = settings.hidden, width = place.share(hidden);
  const core::Shard columns_here = place.rows(hidden);  // of query, key and value, which are rows of their weights
  const std::string self = settings.prefix + "attention.self.";
  for (const char* name : {"query", "key", "value"}) {
    specs.push_back({self + name + ".weight", {width, hidden}, true, name[0] != 'q', "", columns_here});
  }
  for (const char* name : {"query", "key", "value"}) {
    specs.push_back({self + name + ".bias", {width}, false, name[0] != 'q', "", columns_here});
  }
  declare_output(settings, output_name, hidden, specs, place);
}

SelfAttention::SelfAttention(const EncoderHalfSettings& settings, const core::ParameterStore& parameters,
                             const TensorGroup& group)
    : EncoderHalfBase(settings, parameters, group, output_name, site_in_block),
      heads_(group.place().share(settings.heads)),
      width_(group.place().share(settings.hidden)),
      query_(find("attention.self.query")),
      key_(find("attention.self.key")) {
  core::require(settings.heads % group.place().size == 0, "attention: heads that the tensor group cannot share out");
}

EncoderHalf::Saved SelfAttention::take_saved(core::Workspace& workspace, std::int64_t tokens,
                                             const RowSelection* selection, std::int64_t dropout_tiles) const {
  const std::int64_t rows = row_count(tokens, selection);
  const DataType type = settings_.storage;
  Saved saved;
  if (selection != nullptr) {
    saved.x_selected = workspace.take(rows, settings_.hidden, type);
    saved.query = workspace.take(rows, width_, type);
    saved.key_value = workspace.take(tokens, 2 * width_, type);
  } else {
    saved.query_key_value = workspace.take(tokens, 3 * width_, type);
    saved.query = saved.query_key_value.column_range(0, width_);
    saved.key_value = saved.query_key_value.column_range(width_, 2 * width_);
  }
  saved.context = workspace.take(rows, width_, type);
  saved.log_sum_exp = workspace.take<float>(heads_, rows);
  if (settings_.attention_dropout > 0.0f && dropout_tiles > 0) {
    saved.kept_pairs = workspace.take<std::uint64_t>(heads_ * dropout_tiles, rows);
  }
  take_output(workspace, rows, saved);
  return saved;
}

EncoderHalf::Kept SelfAttention::take_kept(core::Workspace& workspace, std::int64_t tokens,
                                           const RowSelection* selection) const {
  const std::int64_t rows = row_count(tokens, selection);
  const DataType type = settings_.storage;
  Kept kept;
  take_product(workspace, rows, kept);
  if (selection != nullptr) {
    kept.d_query = workspace.take(rows, width_, type);
    kept.d_key_value = workspace.take(tokens, 2 * width_, type);
  } else {
    kept.d_query_key_value = workspace.take(tokens, 3 * width_, type);
    kept.d_query = kept.d_query_key_value.column_range(0, width_);
    kept.d_key_value = kept.d_query_key_value.column_range(width_, 2 * width_);
  }
  return kept;
}

void SelfAttention::plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const {
  const std::int64_t mark = workspace.mark();
  const std::int64_t rows = row_count(tokens, selection);
  workspace.take(rows, width_, settings_.storage);
  if (selection != nullptr) workspace.take(rows, settings_.hidden, group_.partial_type(settings_.storage));
  workspace.release(mark);
}

ops::AttentionExtents SelfAttention::extents(const Pass& pass) const {
  return {.sequences = pass.batch.sequences,
          .heads = heads_,
          .head_dim = settings_.hidden / settings_.heads,
          .max_length = pass.batch.max_length,
          .first_head = group_.place().begin(settings_.heads)};
}

std::vector<LinearWeight> SelfAttention::linear_weights(bool selects) const {
  if (!selects) return {linear_weight(query_, false, 3), linear_weight(output_, false)};
  return {linear_weight(query_, true), linear_weight(key_, false, 2), linear_weight(output_, true)};
}

void SelfAttention::forward(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x,
                            Saved& saved) const {
  const TokenRows& rows = rows_of(pass, selection);
  const ConstMatrix all = group_.gather(x, pass.batch.tokens.count);
  ConstMatrix residual = x;
  if (selection != nullptr) {
    ops::gather_rows(all, selection->index, saved.x_selected);
    residual = group_.own(saved.x_selected);
    engine.products_of(query_.weight)
        .forward(saved.x_selected, parameters_.value(query_.weight), values(query_.bias), saved.query);
    engine.products_of(key_.weight)
        .forward(all, joined(parameters_.value(key_.weight), 2), values(key_.bias), saved.key_value);
  } else {
    engine.products_of(query_.weight)
        .forward(all, joined(parameters_.value(query_.weight), 3), values(query_.bias), saved.query_key_value);
  }
  const ConstMatrix key_value = saved.key_value;
  engine.attention.forward(extents(pass), rows, pass.batch.tokens,
                           pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                           key_value.column_range(0, width_), key_value.column_range(width_, width_), saved.context,
                           saved.log_sum_exp, saved.kept_pairs);
  finish_forward(engine, pass, rows, saved.context, residual, saved);
}

void SelfAttention::backward_input(Engine& engine, const Pass& pass, const RowSelection* selection, const Saved& saved,
                                   Matrix d_y, Kept& kept, Matrix d_x, core::Workspace& workspace) const {
  const TokenRows& rows = rows_of(pass, selection);
  const std::int64_t mark = workspace.mark();
  // The gradient at the input begins with the residual's share; where every row is computed on one rank it is d_x
  // itself.
  const Matrix d_context = workspace.take(rows.count, width_, settings_.storage);
  const Matrix sum = group_.partial(d_x, pass.batch.tokens.count);
  const Matrix d_rows =
      selection != nullptr ? workspace.take(rows.count, settings_.hidden, group_.partial_type(settings_.storage)) : sum;
  begin_backward(pass, rows, saved, d_y, kept, d_rows);
  engine.products_of(output_.weight)
      .backward_input(group_.gather(kept.d_product, rows.count), parameters_.value(output_.weight), d_context,
                      Write::replace);
  const ConstMatrix key_value = saved.key_value;
  engine.attention.backward(extents(pass), rows, pass.batch.tokens,
                            pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                            key_value.column_range(0, width_), key_value.column_range(width_, width_), saved.context,
                            saved.log_sum_exp, saved.kept_pairs, d_context, kept.d_query,
                            kept.d_key_value.column_range(0, width_), kept.d_key_value.column_range(width_, width_));
  if (selection != nullptr) {
    engine.products_of(query_.weight)
        .backward_input(kept.d_query, parameters_.value(query_.weight), d_rows, Write::accumulate);
    engine.products_of(key_.weight)
        .backward_input(kept.d_key_value, joined(parameters_.value(key_.weight), 2), sum, Write::replace);
    ops::scatter_add_rows(d_rows, selection->index, sum);
  } else {
    engine.products_of(query_.weight)
        .backward_input(kept.d_query_key_value, joined(parameters_.value(query_.weight), 3), sum, Write::accumulate);
  }
  group_.sum(sum, d_x);
  workspace.release(mark);
}

void SelfAttention::backward_weight(Engine& engine, const RowSelection* selection, const Saved& saved, const Kept& kept,
                                    ConstMatrix x) const {
  add_output_gradients(engine, saved, kept, saved.context);
  const ConstMatrix all = group_.gather(x, saved.key_value.rows);
  if (selection != nullptr) {
    add_gradients(engine, kept.d_query, saved.x_selected, parameters_.gradient(query_.weight), query_);
    add_gradients(engine, kept.d_key_value, all, joined(parameters_.gradient(key_.weight), 2), key_);
  } else {
    add_gradients(engine, kept.d_query_key_value, all, joined(parameters_.gradient(query_.weight), 3), query_);
  }
}

}  // namespace bert_hpc::layers
