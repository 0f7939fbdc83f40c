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

void EncoderBlock::declare(const EncoderBlockSettings& settings, std::vector<core::ParameterSpec>& specs) {
  const std::int64_t hidden = settings.hidden, wide = settings.intermediate;
  const std::string self = settings.prefix + "attention.self.";
  for (const char* name : {"query", "key", "value"}) {
    specs.push_back({self + name + ".weight", {hidden, hidden}, true, name[0] != 'q'});
  }
  for (const char* name : {"query", "key", "value"}) {
    specs.push_back({self + name + ".bias", {hidden}, false, name[0] != 'q'});
  }
  const auto linear = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    specs.push_back({settings.prefix + name + ".weight", {out, in}});
    specs.push_back({settings.prefix + name + ".bias", {out}, false});
  };
  const auto norm = [&](const std::string& name) {
    specs.push_back({settings.prefix + name + ".weight", {hidden}, false});
    specs.push_back({settings.prefix + name + ".bias", {hidden}, false});
  };
  linear("attention.output.dense", hidden, hidden);
  norm("attention.output.LayerNorm");
  linear("intermediate.dense", wide, hidden);
  linear("output.dense", hidden, wide);
  norm("output.LayerNorm");
}

EncoderBlock::Linear EncoderBlock::find(const std::string& name) const {
  return {parameters_.find(settings_.prefix + name + ".weight"), parameters_.find(settings_.prefix + name + ".bias")};
}

EncoderBlock::EncoderBlock(const EncoderBlockSettings& settings, const core::ParameterStore& parameters)
    : settings_(settings),
      parameters_(parameters),
      query_(find("attention.self.query")),
      key_(find("attention.self.key")),
      projection_(find("attention.output.dense")),
      attention_norm_(find("attention.output.LayerNorm")),
      intermediate_(find("intermediate.dense")),
      output_(find("output.dense")),
      output_norm_(find("output.LayerNorm")) {}

EncoderBlock::Saved EncoderBlock::take_saved(core::Workspace& workspace, std::int64_t tokens,
                                             const RowSelection* selection) const {
  const std::int64_t rows = row_count(tokens, selection), hidden = settings_.hidden;
  Saved saved;
  if (selection != nullptr) {
    saved.x_selected = workspace.take<float>(rows, hidden);
    saved.query = workspace.take<float>(rows, hidden);
    saved.key_value = workspace.take<float>(tokens, 2 * hidden);
  } else {
    saved.query_key_value = workspace.take<float>(tokens, 3 * hidden);
    saved.query = saved.query_key_value.column_range(0, hidden);
    saved.key_value = saved.query_key_value.column_range(hidden, 2 * hidden);
  }
  saved.context = workspace.take<float>(rows, hidden);
  saved.log_sum_exp = workspace.take<float>(settings_.heads, rows);
  saved.attention_sum = workspace.take<float>(rows, hidden);
  saved.attention_output = workspace.take<float>(rows, hidden);
  saved.intermediate = workspace.take<float>(rows, settings_.intermediate);
  saved.activated = workspace.take<float>(rows, settings_.intermediate);
  saved.output_sum = workspace.take<float>(rows, hidden);
  saved.output = workspace.take<float>(rows, hidden);
  saved.statistics = workspace.take<float>(4, rows);
  return saved;
}

EncoderBlock::Kept EncoderBlock::take_kept(core::Workspace& workspace, std::int64_t tokens,
                                           const RowSelection* selection) const {
  const std::int64_t rows = row_count(tokens, selection), hidden = settings_.hidden;
  Kept kept;
  kept.d_feed_forward = workspace.take<float>(rows, hidden);
  kept.d_intermediate = workspace.take<float>(rows, settings_.intermediate);
  kept.d_attention_output = workspace.take<float>(rows, hidden);
  kept.d_projection = workspace.take<float>(rows, hidden);
  if (selection != nullptr) {
    kept.d_query = workspace.take<float>(rows, hidden);
    kept.d_key_value = workspace.take<float>(tokens, 2 * hidden);
  } else {
    kept.d_query_key_value = workspace.take<float>(tokens, 3 * hidden);
    kept.d_query = kept.d_query_key_value.column_range(0, hidden);
    kept.d_key_value = kept.d_query_key_value.column_range(hidden, 2 * hidden);
  }
  return kept;
}

void EncoderBlock::plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const {
  const std::int64_t mark = workspace.mark();
  workspace.take<float>(row_count(tokens, selection), settings_.hidden);
  if (selection != nullptr) workspace.take<float>(row_count(tokens, selection), settings_.hidden);
  workspace.release(mark);
}

ops::AttentionExtents EncoderBlock::extents(const Pass& pass) const {
  return {.sequences = pass.batch.sequences,
          .heads = settings_.heads,
          .head_dim = settings_.hidden / settings_.heads,
          .max_length = pass.batch.max_length};
}

void EncoderBlock::forward(Engine& engine, const Pass& pass, const RowSelection* selection, Tensor<const float> x,
                           Saved& saved) const {
  const TokenRows& rows = output_rows(pass, selection);
  const std::int64_t hidden = settings_.hidden;
  Tensor<const float> residual = x;
  if (selection != nullptr) {
    ops::gather_rows(x, selection->index, saved.x_selected);
    residual = saved.x_selected;
    engine.products.forward(saved.x_selected, parameters_.value(query_.weight), values(query_.bias), saved.query);
    engine.products.forward(x, joined(parameters_.value(key_.weight), 2), values(key_.bias), saved.key_value);
  } else {
    engine.products.forward(x, joined(parameters_.value(query_.weight), 3), values(query_.bias), saved.query_key_value);
  }
  const Tensor<const float> key_value = saved.key_value;
  engine.attention.forward(extents(pass), rows, pass.batch.tokens,
                           pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                           key_value.column_range(0, hidden), key_value.column_range(hidden, hidden), saved.context,
                           saved.log_sum_exp);

  engine.products.forward(saved.context, parameters_.value(projection_.weight), nullptr, saved.attention_sum);
  ops::residual_layer_norm_forward(
      pass.dropout(settings_.hidden_dropout, settings_.first_site + 1), rows, saved.attention_sum,
      values(projection_.bias), residual, values(attention_norm_.weight), values(attention_norm_.bias),
      settings_.layer_norm_epsilon, saved.attention_output, saved.statistics.row(0), saved.statistics.row(1));

  engine.products.forward_gelu(saved.attention_output, parameters_.value(intermediate_.weight),
                               values(intermediate_.bias), saved.intermediate, saved.activated);
  engine.products.forward(saved.activated, parameters_.value(output_.weight), nullptr, saved.output_sum);
  ops::residual_layer_norm_forward(pass.dropout(settings_.hidden_dropout, settings_.first_site + 2), rows,
                                   saved.output_sum, values(output_.bias), saved.attention_output,
                                   values(output_norm_.weight), values(output_norm_.bias), settings_.layer_norm_epsilon,
                                   saved.output, saved.statistics.row(2), saved.statistics.row(3));
}

/// From d_y to kept.d_attention_output, which includes the residual's share.
void EncoderBlock::feed_forward_backward(Engine& engine, const Pass& pass, const TokenRows& rows, const Saved& saved,
                                         Tensor<float> d_y, Kept& kept) const {
  kept.d_output = d_y;
  ops::residual_layer_norm_backward(pass.dropout(settings_.hidden_dropout, settings_.first_site + 2), rows, d_y,
                                    saved.output_sum, values(output_norm_.weight), saved.statistics.row(2),
                                    saved.statistics.row(3), kept.d_attention_output, kept.d_feed_forward);
  engine.products.backward_input_gelu(kept.d_feed_forward, parameters_.value(output_.weight), saved.intermediate,
                                      kept.d_intermediate);
  engine.products.backward_input(kept.d_intermediate, parameters_.value(intermediate_.weight), kept.d_attention_output,
                                 Write::accumulate);
}

void EncoderBlock::backward_input(Engine& engine, const Pass& pass, const RowSelection* selection, const Saved& saved,
                                  Tensor<float> d_y, Kept& kept, Tensor<float> d_x, core::Workspace& workspace) const {
  const TokenRows& rows = output_rows(pass, selection);
  const std::int64_t hidden = settings_.hidden, mark = workspace.mark();
  feed_forward_backward(engine, pass, rows, saved, d_y, kept);

  // The gradient at the block's input begins with the residual's share; where every row is computed it is d_x itself.
  const Tensor<float> d_context = workspace.take<float>(rows.count, hidden);
  const Tensor<float> d_rows = selection != nullptr ? workspace.take<float>(rows.count, hidden) : d_x;
  ops::residual_layer_norm_backward(pass.dropout(settings_.hidden_dropout, settings_.first_site + 1), rows,
                                    kept.d_attention_output, saved.attention_sum, values(attention_norm_.weight),
                                    saved.statistics.row(0), saved.statistics.row(1), d_rows, kept.d_projection);
  engine.products.backward_input(kept.d_projection, parameters_.value(projection_.weight), d_context, Write::replace);
  const Tensor<const float> key_value = saved.key_value;
  engine.attention.backward(extents(pass), rows, pass.batch.tokens,
                            pass.dropout(settings_.attention_dropout, settings_.first_site), saved.query,
                            key_value.column_range(0, hidden), key_value.column_range(hidden, hidden), saved.context,
                            saved.log_sum_exp, d_context, kept.d_query, kept.d_key_value.column_range(0, hidden),
                            kept.d_key_value.column_range(hidden, hidden));
  if (selection != nullptr) {
    engine.products.backward_input(kept.d_query, parameters_.value(query_.weight), d_rows, Write::accumulate);
    engine.products.backward_input(kept.d_key_value, joined(parameters_.value(key_.weight), 2), d_x, Write::replace);
    ops::scatter_add_rows(d_rows, selection->index, d_x);
  } else {
    engine.products.backward_input(kept.d_query_key_value, joined(parameters_.value(query_.weight), 3), d_x,
                                   Write::accumulate);
  }
  workspace.release(mark);
}

void EncoderBlock::backward_weight(Engine& engine, const RowSelection* selection, const Saved& saved, const Kept& kept,
                                   Tensor<const float> x) const {
  const auto add = [&](Tensor<const float> d_y, Tensor<const float> input, Tensor<float> d_weight, int bias) {
    engine.products.backward_weight(d_y, input, d_weight, gradients(bias), Write::accumulate);
  };
  ops::layer_norm_backward_weight(kept.d_output, saved.output_sum, saved.statistics.row(2), saved.statistics.row(3),
                                  gradients(output_norm_.weight), gradients(output_norm_.bias), Write::accumulate);
  add(kept.d_feed_forward, saved.activated, parameters_.gradient(output_.weight), output_.bias);
  add(kept.d_intermediate, saved.attention_output, parameters_.gradient(intermediate_.weight), intermediate_.bias);
  ops::layer_norm_backward_weight(kept.d_attention_output, saved.attention_sum, saved.statistics.row(0),
                                  saved.statistics.row(1), gradients(attention_norm_.weight),
                                  gradients(attention_norm_.bias), Write::accumulate);
  add(kept.d_projection, saved.context, parameters_.gradient(projection_.weight), projection_.bias);
  if (selection != nullptr) {
    add(kept.d_query, saved.x_selected, parameters_.gradient(query_.weight), query_.bias);
    add(kept.d_key_value, x, joined(parameters_.gradient(key_.weight), 2), key_.bias);
  } else {
    add(kept.d_query_key_value, x, joined(parameters_.gradient(query_.weight), 3), query_.bias);
  }
}

}  // namespace bert_hpc::layers
