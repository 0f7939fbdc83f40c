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

void SelfAttention::declare(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
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

SelfAttention::SelfAttention(const SublayerSettings& settings, const core::ParameterStore& parameters,
                             const TensorGroup& group)
    : ResidualSublayer(settings, parameters, group, output_name, site_in_block),
      heads_(group.place().share(settings.heads)),
      width_(group.place().share(settings.hidden)),
      query_key_value_(linear("attention.self.query", 3)),
      query_(linear("attention.self.query")),
      key_value_(linear("attention.self.key", 2)) {
  core::require(settings.heads % group.place().size == 0, "attention: heads that the tensor group cannot share out");
}

Sublayer::Saved SelfAttention::take_saved(core::Workspace& workspace, std::int64_t tokens,
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

Sublayer::Kept SelfAttention::take_kept(core::Workspace& workspace, std::int64_t tokens,
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
  if (!selects) return {query_key_value_.weight(false), output_.weight(false)};
  return {query_.weight(true), key_value_.weight(false), output_.weight(true)};
}

void SelfAttention::forward(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x,
                            Saved& saved) const {
  const TokenRows& rows = rows_of(pass, selection);
  const ConstMatrix all = group_.gather(x, pass.batch.tokens.count);
  ConstMatrix residual = x;
  if (selection != nullptr) {
    ops::gather_rows(all, selection->index, saved.x_selected);
    residual = group_.own(saved.x_selected);
    query_.forward(engine, saved.x_selected, saved.query);
    key_value_.forward(engine, all, saved.key_value);
  } else {
    query_key_value_.forward(engine, all, saved.query_key_value);
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
  output_.backward_input(engine, group_.gather(kept.d_product, rows.count), d_context, Write::replace);
  const ConstMatrix key_value = saved.key_value;
  engine.attention.backward(extents(pass), rows, pass.batch.tokens,
                            pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                            key_value.column_range(0, width_), key_value.column_range(width_, width_), saved.context,
                            saved.log_sum_exp, saved.kept_pairs, d_context, kept.d_query,
                            kept.d_key_value.column_range(0, width_), kept.d_key_value.column_range(width_, width_));
  if (selection != nullptr) {
    query_.backward_input(engine, kept.d_query, d_rows, Write::accumulate);
    key_value_.backward_input(engine, kept.d_key_value, sum, Write::replace);
    ops::scatter_add_rows(d_rows, selection->index, sum);
  } else {
    query_key_value_.backward_input(engine, kept.d_query_key_value, sum, Write::accumulate);
  }
  group_.sum(sum, d_x);
  workspace.release(mark);
}

void SelfAttention::backward_weight(Engine& engine, const RowSelection* selection, const Saved& saved, const Kept& kept,
                                    ConstMatrix x) const {
  add_output_gradients(engine, saved, kept, saved.context);
  const ConstMatrix all = group_.gather(x, saved.key_value.rows);
  if (selection != nullptr) {
    query_.backward_weight(engine, kept.d_query, saved.x_selected);
    key_value_.backward_weight(engine, kept.d_key_value, all);
  } else {
    query_key_value_.backward_weight(engine, kept.d_query_key_value, all);
  }
}

}  // namespace bert_hpc::layers
