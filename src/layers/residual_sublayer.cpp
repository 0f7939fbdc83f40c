#include "residual_sublayer.hpp"

namespace bert_hpc::layers {

ResidualSublayer::ResidualSublayer(const SublayerSettings& settings, const core::ParameterStore& parameters,
                                   const TensorGroup& group, std::uint32_t site)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      output_site_(settings.first_site + site),
      output_(linear(settings.output, site)),
      norm_(parameters, settings.norm, settings.norm_kind) {}

void ResidualSublayer::declare_output(const SublayerSettings& settings, std::int64_t columns,
                                      std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) {
  specs.push_back({.name = settings.output + ".weight",
                   .shape = {settings.hidden, tensor_rank.share(columns)},
                   .shard = tensor_rank.columns(columns),
                   .one_product = true});
  if (settings.biases) declare_vector(specs, {.name = settings.output + ".bias", .shape = {settings.hidden}});
  declare_norm(specs, settings.norm, settings.hidden, settings.norm_kind);
}

void ResidualSublayer::declare_adapters(const SublayerSettings& settings, const std::vector<AdaptedLayer>& reading,
                                        LayerSplit split, std::vector<core::ParameterSpec>& specs,
                                        const TensorRank& tensor_rank) {
  std::vector<AdaptedLayer> adapted;
  for (const AdaptedLayer& layer : reading) {
    if (settings.adapters.adapts(layer.name)) adapted.push_back(layer);
  }
  if (adapted.empty()) return;
  layers::declare_adapters(adapted, settings.adapters, specs, split, tensor_rank);
}

LinearSettings ResidualSublayer::linear_settings(const std::string& name, std::uint32_t input,
                                                 std::int64_t joined) const {
  constexpr std::uint32_t inputs_of_site = 2;  // a block has three sites and four inputs of linear layers
  return {.weight = name + ".weight",
          .bias = settings_.biases ? name + ".bias" : "",
          .joined = joined,
          .adapters = settings_.adapters,
          .adapter_site = inputs_of_site * settings_.first_site + input,
          .group = group_};
}

void ResidualSublayer::allocate_output(core::Workspace& workspace, std::int64_t rows,
                                       ResidualActivations& saved) const {
  if (settings_.sum_out) {
    saved.both = take_stream(workspace, group_, rows, settings_.hidden, settings_.storage);
    saved.sum = first_half(saved.both);
    saved.output = second_half(saved.both);
  } else {
    saved.sum = group_.take(workspace, rows, settings_.hidden, settings_.storage);
    saved.output = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  }
  saved.output_inner = output_.take_inner(workspace, rows, settings_.storage);
  saved.statistics = workspace.take<float>(2, group_.capacity(rows));
}

void ResidualSublayer::allocate_product(core::Workspace& workspace, std::int64_t rows,
                                        ResidualGradients& deferred) const {
  deferred.d_product = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  deferred.output_inner = output_.take_inner(workspace, rows, settings_.storage);
  if (fuses_norm_sums()) deferred.norm_sums = workspace.take<float>(ops::norm_sum_blocks(rows), 3 * settings_.hidden);
}

void ResidualSublayer::finish_forward(Engine& engine, const StepContext& context, const core::TokenRows& rows,
                                      const ops::ProductOperand& inner, ConstMatrix residual,
                                      ResidualActivations& saved) const {
  const Matrix sum = group_.partial(saved.sum, rows.count);
  output_.forward_without_bias(engine, inner, sum, of(context, rows, saved.output_inner));
  group_.sum(sum, saved.sum);
  ops::residual_layer_norm_forward(context.dropout(settings_.hidden_dropout, output_site_), group_.own(rows), saved.sum,
                                   output_.bias(), residual, norm_.gamma(), norm_.beta(), settings_.layer_norm_epsilon,
                                   saved.output, norm_.mean(saved.statistics), norm_.rstd(saved.statistics));
}

void ResidualSublayer::begin_backward(const StepContext& context, const core::TokenRows& rows,
                                      const ResidualActivations& saved, const StreamGradient& d_y,
                                      ResidualGradients& deferred, const Matrix& d_sum) const {
  const core::Dropout dropout = context.dropout(settings_.hidden_dropout, output_site_);
  deferred.d_output = d_y.y;
  if (fuses_norm_sums()) {
    return ops::residual_layer_norm_backward_sums(dropout, rows, d_y.y, saved.sum, norm_.gamma(),
                                                  norm_.mean(saved.statistics), norm_.rstd(saved.statistics), d_sum,
                                                  deferred.d_product, deferred.norm_sums, d_y.residual);
  }
  ops::residual_layer_norm_backward(dropout, group_.own(rows), d_y.y, saved.sum, norm_.gamma(),
                                    norm_.mean(saved.statistics), norm_.rstd(saved.statistics), d_sum,
                                    deferred.d_product, d_y.residual);
}

void ResidualSublayer::add_output_gradients(Engine& engine, const StepContext& context, const core::TokenRows& rows,
                                            const ResidualActivations& saved, const ResidualGradients& deferred,
                                            const ops::ProductOperand& inner) const {
  const LinearRows kept = of(context, rows, saved.output_inner, deferred.output_inner);
  if (fuses_norm_sums()) {
    return output_.backward_weight_without_bias(engine, deferred.d_product, inner, kept);
  }
  const NormGradient norm = {
      deferred.d_output, saved.sum,     norm_.mean(saved.statistics), norm_.rstd(saved.statistics),
      norm_.d_gamma(),   norm_.d_beta()};
  add_norm_gradients(group_, std::span(&norm, 1));
  output_.backward_weight(engine, group_.gather(deferred.d_product, inner.matrix.rows), inner, kept);
}

ops::ColumnSums ResidualSublayer::norm_gradients(const ResidualGradients& deferred) const {
  if (!fuses_norm_sums()) return {};
  return {deferred.norm_sums, {norm_.d_gamma(), norm_.d_beta(), output_.bias_gradient()}, 3};
}

}  // namespace bert_hpc::layers
