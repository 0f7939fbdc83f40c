#include "bert_hpc/layers/row_factors.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/layers/low_rank_adapter.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "bert_hpc/ops/row_norms.hpp"

namespace bert_hpc::layers {
namespace {

/// The layer of the name of a magnitude.
std::string layer_of(const std::string& magnitude) {
  return magnitude.substr(0, magnitude.size() - adapter_magnitude("").size());
}

std::span<float> whole(const core::Buffer<float>& buffer) {
  return {buffer.data(), static_cast<std::size_t>(buffer.size())};
}

/// Norms and factors of whole rows, of which this rank may have some columns.
void find_norms(const core::ParameterSlice& weight, const ops::LowRankSum& sum, const TensorGroup& group,
                const float* magnitudes, float* norms, float* factors) {
  if (!group.shared() || weight.shard.dimension != 1) return ops::row_norms(sum, magnitudes, norms, factors);
  ops::row_squares(sum, norms);
  group.all_reduce({norms, static_cast<std::size_t>(sum.w.rows)}, comm::Reduction::sum);
  ops::finish_row_norms(sum.w.rows, magnitudes, norms, factors);
}

}  // namespace

RowFactors::RowFactors(const core::ParameterStore& parameters, const TensorGroup& group)
    : parameters_(parameters), group_(group), begins_(parameters.slices().size(), -1) {
  const std::vector<core::ParameterSlice>& slices = parameters.slices();
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (!is_adapter_magnitude(slices[i].name)) continue;
    const std::string layer = layer_of(slices[i].name);
    layers_.push_back({.weight = parameters.find(layer + ".weight"),
                       .a = find_adapter_a(parameters, layer),
                       .b = parameters.find(adapter_b(layer)),
                       .magnitude = static_cast<int>(i),
                       .version = parameters.version() - 1});
  }
  std::sort(layers_.begin(), layers_.end(), [](const Layer& x, const Layer& y) { return x.weight < y.weight; });
  // Joined weights follow one another in the arrays too, those without a magnitude included.
  for (const Layer& layer : layers_) {
    auto first = static_cast<std::size_t>(layer.weight);
    while (slices[first].joined) --first;
    for (std::size_t i = first; begins_[i] < 0 && i < slices.size() && (i == first || slices[i].joined); ++i) {
      begins_[i] = rows_;
      rows_ += slices[i].rows;
    }
  }
  if (parameters.values().data() == nullptr) return;
  factors_ = core::Buffer<float>(rows_);
  norms_ = core::Buffer<float>(rows_);
  ops::fill(whole(factors_), 1.0f);
  ops::fill(whole(norms_), 1.0f);
}

void RowFactors::renew(Layer& layer, float scale) {
  if (layer.version == parameters_.version()) return;
  const std::int64_t begin = begin_of(layer.weight);
  const ops::LowRankSum sum = {.w = parameters_.value(layer.weight),
                               .a = parameters_.value(layer.a),
                               .b = parameters_.value(layer.b),
                               .scale = scale};
  find_norms(parameters_.slices()[static_cast<std::size_t>(layer.weight)], sum, group_,
             parameters_.value(layer.magnitude).data, norms_.data() + begin, factors_.data() + begin);
  layer.version = parameters_.version();
}

void RowFactors::renew(float scale) {
  for (Layer& layer : layers_) renew(layer, scale);
}

RowFactors::Rows RowFactors::of(int weight, std::int64_t joined, float scale) {
  core::require(begin_of(weight) >= 0, "row factors: a weight without a magnitude");
  for (Layer& layer : layers_) {
    if (layer.weight >= weight && layer.weight < weight + joined) renew(layer, scale);
  }
  return {factors_.data() + begin_of(weight), norms_.data() + begin_of(weight)};
}

void set_magnitudes(core::ParameterStore& parameters, const TensorGroup& group) {
  for (std::size_t i = 0; i < parameters.slices().size(); ++i) {
    const std::string& name = parameters.slices()[i].name;
    if (!is_adapter_magnitude(name)) continue;
    const int weight = parameters.find(layer_of(name) + ".weight");
    find_norms(parameters.slices()[static_cast<std::size_t>(weight)], {.w = parameters.value(weight)}, group, nullptr,
               parameters.change_value(static_cast<int>(i)).data, nullptr);
  }
}

}  // namespace bert_hpc::layers
