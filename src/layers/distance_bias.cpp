#include "distance_bias.hpp"

#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::layers {

DistanceBias::DistanceBias(const PositionBiasSettings& settings, const core::ParameterStore& parameters)
    : parameters_(&parameters), slice_(parameters.find(settings.in_block)), reach_(settings.max_distance) {
  const std::vector<std::int32_t> buckets = ops::t5_buckets(settings.buckets, settings.max_distance, reach_);
  buckets_ = core::Buffer<std::int32_t>(std::ssize(buckets));
  core::copy_to_device(buckets.data(), buckets_.data(), buckets.size() * sizeof(std::int32_t));
}

void DistanceBias::declare(const PositionBiasSettings& settings, std::int64_t heads, const TensorRank& tensor_rank,
                           std::vector<core::ParameterSpec>& specs) {
  specs.push_back({.name = settings.in_block,
                   .shape = {tensor_rank.share(heads), settings.buckets},
                   .decay = false,  // Transformers decays no parameter with "bias" in its name
                   .copy_of = settings.in_block == settings.name ? "" : settings.name,
                   .shard = tensor_rank.rows(heads)});
}

ops::PositionBias DistanceBias::view() const {
  if (slice_ < 0) return {};
  return {{buckets_.data(), reach_}, parameters_->value(slice_)};
}

void DistanceBias::backward_weight(std::int64_t sequences, const core::TokenRows& keys,
                                   Tensor<const float> d_bias) const {
  ops::add_bucket_sums(view(), sequences, keys, d_bias, parameters_->gradient(slice_));
}

}  // namespace bert_hpc::layers
