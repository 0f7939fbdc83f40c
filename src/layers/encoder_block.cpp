#include "bert_hpc/layers/encoder_block.hpp"

#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"

namespace bert_hpc::layers {

using core::TokenRows;
using ops::Write;

namespace {

const TokenRows& output_rows(const Pass& pass, const RowSelection* selection) {
  return selection != nullptr ? selection->rows : pass.batch.tokens;
}

std::int64_t row_count(std::int64_t tokens, const RowSelection* selection) {
  return selection != nullptr ? selection->rows.count : tokens;
}

}  // namespace

void EncoderBlock::declare(const EncoderBlockSettings& settings, std::vector<core::ParameterSpec>& specs,
                           const TensorPlace& place) {
  const std::int64_t hidden = settings.hidden, width = place.share(hidden), wide = place.share(settings.intermediate);
  const core::Shard columns_here = place.rows(hidden);  // of query, key and value, which are rows of their weights
  const std::string self = settings.prefix + "attention.self.";
  for (const char* name : {"query", "key", "value"}) {
    specs.push_back({self + name + ".weight", {width, hidden}, true, name[0] != 'q', "", columns_here});
  }
  for (const char* name : {"query", "key", "value"}) {
    specs.push_back({self + name + ".bias", {width}, false, name[0] != 'q', "", columns_here});
  }
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape, bool decay,
                       const core::Shard& shard) {
    specs.push_back({.name = settings.prefix + name, .shape = shape, .decay = decay, .shard = shard});
  };
  const auto norm = [&](const std::string& name) {
    add(name + ".weight", {hidden}, false, {});
    add(name + ".bias", {hidden}, false, {});
  };
  add("attention.output.dense.weight", {hidden, width}, true, place.columns(hidden));
  add("attention.output.dense.bias", {hidden}, false, {});
  norm("attention.output.LayerNorm");
  add("intermediate.dense.weight", {wide, hidden}, true, place.rows(settings.intermediate));
  add("intermediate.dense.bias", {wide}, false, place.rows(settings.intermediate));
  add("output.dense.weight", {hidden, wide}, true, place.columns(settings.intermediate));
  add("output.dense.bias", {hidden}, false, {});
  norm("output.LayerNorm");
}

EncoderBlock::Linear EncoderBlock::find(const std::string& name) const {
  return {parameters_.find(settings_.prefix + name + ".weight"), parameters_.find(settings_.prefix + name + ".bias")};
}

EncoderBlock::EncoderBlock(const EncoderBlockSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      heads_(group.place().share(settings.heads)),
      width_(group.place().share(settings.hidden)),
      wide_(group.place().share(settings.intermediate)),
      query_(find("attention.self.query")),
      key_(find("attention.self.key")),
      projection_(find("attention.output.dense")),
      attention_norm_(find("attention.output.LayerNorm")),
      intermediate_(find("intermediate.dense")),
      output_(find("output.dense")),
      output_norm_(find("output.LayerNorm")) {
  core::require(settings.heads % group.place().size == 0,
                "encoder block: heads that the tensor group cannot share out");
}

EncoderBlock::Saved EncoderBlock::take_saved(core::Workspace& workspace, std::int64_t tokens,
                                             const RowSelection* selection) const {
  const std::int64_t rows = row_count(tokens, selection), hidden = settings_.hidden;
  const DataType type = settings_.storage;
  Saved saved;
  if (selection != nullptr) {
    saved.x_selected = workspace.take(rows, hidden, type);
    saved.query = workspace.take(rows, width_, type);
    saved.key_value = workspace.take(tokens, 2 * width_, type);
  } else {
    saved.query_key_value = workspace.take(tokens, 3 * width_, type);
    saved.query = saved.query_key_value.column_range(0, width_);
    saved.key_value = saved.query_key_value.column_range(width_, 2 * width_);
  }
  saved.context = workspace.take(rows, width_, type);
  saved.log_sum_exp = workspace.take<float>(heads_, rows);
  saved.attention_sum = group_.take(workspace, rows, hidden, type);
  saved.attention_output = group_.take(workspace, rows, hidden, type);
  saved.intermediate = workspace.take(rows, wide_, type);
  saved.activated = workspace.take(rows, wide_, type);
  saved.output_sum = group_.take(workspace, rows, hidden, type);
  saved.output = group_.take(workspace, rows, hidden, type);
  saved.statistics = workspace.take<float>(4, group_.capacity(rows));
  return saved;
}

EncoderBlock::Kept EncoderBlock::take_kept(core::Workspace& workspace, std::int64_t tokens,
                                           const RowSelection* selection) const {
  const std::int64_t rows = row_count(tokens, selection), hidden = settings_.hidden;
  const DataType type = settings_.storage;
  Kept kept;
  kept.d_feed_forward = group_.take(workspace, rows, hidden, type);
  kept.d_intermediate = workspace.take(rows, wide_, type);
  kept.d_attention_output = group_.take(workspace, rows, hidden, type);
  kept.d_projection = group_.take(workspace, rows, hidden, type);
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

void EncoderBlock::plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const {
  const std::int64_t mark = workspace.mark();
  const std::int64_t rows = row_count(tokens, selection);
  workspace.take(rows, width_, settings_.storage);
  if (selection != nullptr) workspace.take(rows, settings_.hidden, group_.partial_type(settings_.storage));
  workspace.release(mark);
}

ops::AttentionExtents EncoderBlock::extents(const Pass& pass) const {
  return {.sequences = pass.batch.sequences,
          .heads = heads_,
          .head_dim = settings_.hidden / settings_.heads,
          .max_length = pass.batch.max_length,
          .first_head = group_.place().begin(settings_.heads)};
}

/// To saved.attention_output.
void EncoderBlock::attend(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x,
                          Saved& saved) const {
  const TokenRows& rows = output_rows(pass, selection);
  const ConstMatrix all = group_.gather(x, pass.batch.tokens.count);
  ConstMatrix residual = x;
  if (selection != nullptr) {
    ops::gather_rows(all, selection->index, saved.x_selected);
    residual = group_.own(saved.x_selected);
    engine.products.forward(saved.x_selected, parameters_.value(query_.weight), values(query_.bias), saved.query);
    engine.products.forward(all, joined(parameters_.value(key_.weight), 2), values(key_.bias), saved.key_value);
  } else {
    engine.products.forward(all, joined(parameters_.value(query_.weight), 3), values(query_.bias),
                            saved.query_key_value);
  }
  const ConstMatrix key_value = saved.key_value;
  engine.attention.forward(extents(pass), rows, pass.batch.tokens,
                           pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                           key_value.column_range(0, width_), key_value.column_range(width_, width_), saved.context,
                           saved.log_sum_exp);

  const Matrix sum = group_.partial(saved.attention_sum, rows.count);
  engine.products.forward(saved.context, parameters_.value(projection_.weight), nullptr, sum);
  group_.sum(sum, saved.attention_sum);
  ops::residual_layer_norm_forward(
      pass.dropout(settings_.hidden_dropout, settings_.first_site + 1), group_.own(rows), saved.attention_sum,
      values(projection_.bias), residual, values(attention_norm_.weight), values(attention_norm_.bias),
      settings_.layer_norm_epsilon, saved.attention_output, saved.statistics.row(0), saved.statistics.row(1));
}

/// From saved.attention_output to saved.output.
void EncoderBlock::feed_forward(Engine& engine, const Pass& pass, const TokenRows& rows, Saved& saved) const {
  engine.products.forward_gelu(group_.gather(saved.attention_output, rows.count),
                               parameters_.value(intermediate_.weight), values(intermediate_.bias), saved.intermediate,
                               saved.activated);
  const Matrix sum = group_.partial(saved.output_sum, rows.count);
  engine.products.forward(saved.activated, parameters_.value(output_.weight), nullptr, sum);
  group_.sum(sum, saved.output_sum);
  ops::residual_layer_norm_forward(pass.dropout(settings_.hidden_dropout, settings_.first_site + 2), group_.own(rows),
                                   saved.output_sum, values(output_.bias), saved.attention_output,
                                   values(output_norm_.weight), values(output_norm_.bias), settings_.layer_norm_epsilon,
                                   saved.output, saved.statistics.row(2), saved.statistics.row(3));
}

void EncoderBlock::forward(Engine& engine, const Pass& pass, const RowSelection* selection, ConstMatrix x,
                           Saved& saved) const {
  attend(engine, pass, selection, x, saved);
  feed_forward(engine, pass, output_rows(pass, selection), saved);
}

/// From d_y to kept.d_attention_output, which includes the residual's share.
void EncoderBlock::feed_forward_backward(Engine& engine, const Pass& pass, const TokenRows& rows, const Saved& saved,
                                         Matrix d_y, Kept& kept) const {
  kept.d_output = d_y;
  const Matrix sum = group_.partial(kept.d_attention_output, rows.count);
  group_.keep_own(sum);
  ops::residual_layer_norm_backward(pass.dropout(settings_.hidden_dropout, settings_.first_site + 2), group_.own(rows),
                                    d_y, saved.output_sum, values(output_norm_.weight), saved.statistics.row(2),
                                    saved.statistics.row(3), group_.own(sum), kept.d_feed_forward);
  engine.products.backward_input_gelu(group_.gather(kept.d_feed_forward, rows.count), parameters_.value(output_.weight),
                                      saved.intermediate, kept.d_intermediate);
  engine.products.backward_input(kept.d_intermediate, parameters_.value(intermediate_.weight), sum, Write::accumulate);
  group_.sum(sum, kept.d_attention_output);
}

void EncoderBlock::backward_input(Engine& engine, const Pass& pass, const RowSelection* selection, const Saved& saved,
                                  Matrix d_y, Kept& kept, Matrix d_x, core::Workspace& workspace) const {
  const TokenRows& rows = output_rows(pass, selection);
  const std::int64_t mark = workspace.mark();
  feed_forward_backward(engine, pass, rows, saved, d_y, kept);

  // The gradient at the block's input begins with the residual's share; where every row is computed on one rank it is
  // d_x itself.
  const Matrix d_context = workspace.take(rows.count, width_, settings_.storage);
  const Matrix sum = group_.partial(d_x, pass.batch.tokens.count);
  const Matrix d_rows =
      selection != nullptr ? workspace.take(rows.count, settings_.hidden, group_.partial_type(settings_.storage)) : sum;
  group_.keep_own(d_rows);
  ops::residual_layer_norm_backward(pass.dropout(settings_.hidden_dropout, settings_.first_site + 1), group_.own(rows),
                                    kept.d_attention_output, saved.attention_sum, values(attention_norm_.weight),
                                    saved.statistics.row(0), saved.statistics.row(1), group_.own(d_rows),
                                    kept.d_projection);
  engine.products.backward_input(group_.gather(kept.d_projection, rows.count), parameters_.value(projection_.weight),
                                 d_context, Write::replace);
  const ConstMatrix key_value = saved.key_value;
  engine.attention.backward(extents(pass), rows, pass.batch.tokens,
                            pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                            key_value.column_range(0, width_), key_value.column_range(width_, width_), saved.context,
                            saved.log_sum_exp, d_context, kept.d_query, kept.d_key_value.column_range(0, width_),
                            kept.d_key_value.column_range(width_, width_));
  if (selection != nullptr) {
    engine.products.backward_input(kept.d_query, parameters_.value(query_.weight), d_rows, Write::accumulate);
    engine.products.backward_input(kept.d_key_value, joined(parameters_.value(key_.weight), 2), sum, Write::replace);
    ops::scatter_add_rows(d_rows, selection->index, sum);
  } else {
    engine.products.backward_input(kept.d_query_key_value, joined(parameters_.value(query_.weight), 3), sum,
                                   Write::accumulate);
  }
  group_.sum(sum, d_x);
  workspace.release(mark);
}

void EncoderBlock::backward_weight(Engine& engine, const RowSelection* selection, const Saved& saved, const Kept& kept,
                                   ConstMatrix x) const {
  const std::int64_t rows = saved.context.rows, tokens = saved.key_value.rows;
  const auto add = [&](ConstMatrix d_y, ConstMatrix input, Tensor<float> d_weight, int bias) {
    engine.products.backward_weight(d_y, input, d_weight, gradients(bias), Write::accumulate);
  };
  const auto norm = [&](ConstMatrix d_y, ConstMatrix z, std::int64_t statistic, const Linear& slices) {
    return NormGradient{d_y,
                        z,
                        saved.statistics.row(statistic),
                        saved.statistics.row(statistic + 1),
                        gradients(slices.weight),
                        gradients(slices.bias)};
  };
  const NormGradient norms[] = {norm(kept.d_output, saved.output_sum, 2, output_norm_),
                                norm(kept.d_attention_output, saved.attention_sum, 0, attention_norm_)};
  add_norm_gradients(group_, norms);
  add(group_.gather(kept.d_feed_forward, rows), saved.activated, parameters_.gradient(output_.weight), output_.bias);
  add(kept.d_intermediate, group_.gather(saved.attention_output, rows), parameters_.gradient(intermediate_.weight),
      intermediate_.bias);
  add(group_.gather(kept.d_projection, rows), saved.context, parameters_.gradient(projection_.weight),
      projection_.bias);
  const ConstMatrix all = group_.gather(x, tokens);
  if (selection != nullptr) {
    add(kept.d_query, saved.x_selected, parameters_.gradient(query_.weight), query_.bias);
    add(kept.d_key_value, all, joined(parameters_.gradient(key_.weight), 2), key_.bias);
  } else {
    add(kept.d_query_key_value, all, joined(parameters_.gradient(query_.weight), 3), query_.bias);
  }
}

}  // namespace bert_hpc::layers
