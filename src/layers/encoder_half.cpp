#include "bert_hpc/layers/encoder_half.hpp"

#include "encoder_half_base.hpp"
#include "feed_forward.hpp"
#include "self_attention.hpp"

namespace bert_hpc::layers {
namespace {

/// The layer norm's parameters stand beside those of the product before it.
std::string norm_beside(const std::string& output) {
  return output.substr(0, output.rfind("dense")) + "LayerNorm";
}

}  // namespace

EncoderHalfBase::EncoderHalfBase(const EncoderHalfSettings& settings, const core::ParameterStore& parameters,
                                 const TensorGroup& group, const std::string& output, std::uint32_t site)
    : settings_(settings),
      parameters_(parameters),
      group_(group),
      output_site_(settings.first_site + site),
      output_(find(output)),
      norm_(find(norm_beside(output))) {}

void EncoderHalfBase::declare_output(const EncoderHalfSettings& settings, const std::string& output,
                                     std::int64_t columns, std::vector<core::ParameterSpec>& specs,
                                     const TensorPlace& place) {
  const std::int64_t hidden = settings.hidden;
  const std::string product = settings.prefix + output, norm = settings.prefix + norm_beside(output);
  specs.push_back({.name = product + ".weight",
                   .shape = {hidden, place.share(columns)},
                   .decay = true,
                   .shard = place.columns(columns)});
  for (const std::string& name : {product + ".bias", norm + ".weight", norm + ".bias"}) {
    specs.push_back({.name = name, .shape = {hidden}, .decay = false});
  }
}

EncoderHalfBase::Linear EncoderHalfBase::find(const std::string& name) const {
  return {parameters_.find(settings_.prefix + name + ".weight"), parameters_.find(settings_.prefix + name + ".bias")};
}

void EncoderHalfBase::take_output(core::Workspace& workspace, std::int64_t rows, Saved& saved) const {
  saved.sum = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  saved.output = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  saved.statistics = workspace.take<float>(2, group_.capacity(rows));
}

void EncoderHalfBase::take_product(core::Workspace& workspace, std::int64_t rows, Kept& kept) const {
  kept.d_product = group_.take(workspace, rows, settings_.hidden, settings_.storage);
  if (fuses_norm_sums())
    kept.norm_sums = workspace.take<float>(ops::norm_sum_blocks(rows, settings_.hidden), 3 * settings_.hidden);
}

void EncoderHalfBase::finish_forward(Engine& engine, const Pass& pass, const core::TokenRows& rows, ConstMatrix inner,
                                     ConstMatrix residual, Saved& saved) const {
  const Matrix sum = group_.partial(saved.sum, rows.count);
  engine.products_of(output_.weight).forward(inner, parameters_.value(output_.weight), nullptr, sum);
  group_.sum(sum, saved.sum);
  ops::residual_layer_norm_forward(pass.dropout(settings_.hidden_dropout, output_site_), group_.own(rows), saved.sum,
                                   values(output_.bias), residual, values(norm_.weight), values(norm_.bias),
                                   settings_.layer_norm_epsilon, saved.output, saved.statistics.row(0),
                                   saved.statistics.row(1));
}

void EncoderHalfBase::begin_backward(const Pass& pass, const core::TokenRows& rows, const Saved& saved, Matrix d_y,
                                     Kept& kept, const Matrix& d_rows) const {
  kept.d_output = d_y;
  group_.keep_own(d_rows);
  if (fuses_norm_sums()) {
    return ops::residual_layer_norm_backward(pass.dropout(settings_.hidden_dropout, output_site_), rows, d_y, saved.sum,
                                             values(norm_.weight), saved.statistics.row(0), saved.statistics.row(1),
                                             d_rows, kept.d_product, kept.norm_sums);
  }
  ops::residual_layer_norm_backward(pass.dropout(settings_.hidden_dropout, output_site_), group_.own(rows), d_y,
                                    saved.sum, values(norm_.weight), saved.statistics.row(0), saved.statistics.row(1),
                                    group_.own(d_rows), kept.d_product);
}

void EncoderHalfBase::add_gradients(Engine& engine, ConstMatrix d_y, ConstMatrix input, Tensor<float> d_weight,
                                    const Linear& layer) const {
  engine.products_of(layer.weight)
      .backward_weight(d_y, input, d_weight, gradients(layer.bias), engine.weight_gradients);
}

void EncoderHalfBase::add_gradients(Engine& engine, ConstMatrix d_y, ConstMatrix input, Tensor<float> d_weight,
                                    int weight, Tensor<const float> partial,
                                    std::initializer_list<float*> vectors) const {
  ops::add_partial_sums(partial, {vectors.begin(), vectors.size()}, ops::Write::accumulate);
  engine.products_of(weight).backward_weight(d_y, input, d_weight, nullptr, engine.weight_gradients);
}

void EncoderHalfBase::add_output_gradients(Engine& engine, const Saved& saved, const Kept& kept,
                                           ConstMatrix inner) const {
  if (fuses_norm_sums()) {
    return add_gradients(engine, kept.d_product, inner, parameters_.gradient(output_.weight), output_.weight,
                         kept.norm_sums, {gradients(norm_.weight), gradients(norm_.bias), gradients(output_.bias)});
  }
  const NormGradient norm = {kept.d_output,           saved.sum,
                             saved.statistics.row(0), saved.statistics.row(1),
                             gradients(norm_.weight), gradients(norm_.bias)};
  add_norm_gradients(group_, std::span(&norm, 1));
  add_gradients(engine, group_.gather(kept.d_product, inner.rows), inner, parameters_.gradient(output_.weight),
                output_);
}

void declare_half(const EncoderHalfSettings& settings, std::vector<core::ParameterSpec>& specs,
                  const TensorPlace& place) {
  if (settings.kind == EncoderHalfSettings::Kind::attention) return SelfAttention::declare(settings, specs, place);
  FeedForward::declare(settings, specs, place);
}

std::unique_ptr<EncoderHalf> make_half(const EncoderHalfSettings& settings, const core::ParameterStore& parameters,
                                       const TensorGroup& group) {
  if (settings.kind == EncoderHalfSettings::Kind::attention) {
    return std::make_unique<SelfAttention>(settings, parameters, group);
  }
  return std::make_unique<FeedForward>(settings, parameters, group);
}

}  // namespace bert_hpc::layers
