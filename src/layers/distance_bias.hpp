// The position bias of a block's attention: its parameter, one of all blocks that each block stores for itself, and the
// buckets of distances.
#pragma once

#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/layers/encoder_sublayers.hpp"
#include "bert_hpc/ops/position_bias.hpp"

namespace bert_hpc::layers {

class DistanceBias {
 public:
  /// No bias.
  DistanceBias() = default;
  /// `parameters` must outlive it. Throws Error(internal) if the parameter is missing.
  DistanceBias(const PositionBiasSettings& settings, const core::ParameterStore& parameters);

  /// Appends the parameter: (heads here, buckets).
  static void declare(const PositionBiasSettings& settings, std::int64_t heads, const TensorRank& tensor_rank,
                      std::vector<core::ParameterSpec>& specs);

  bool is_trained() const { return slice_ >= 0 && parameters_->is_trainable(slice_); }
  ops::PositionBias view() const;
  /// Adds to the parameter's gradient. d_bias: as of ops::AttentionGradients.
  void backward_weight(std::int64_t sequences, const core::TokenRows& keys, Tensor<const float> d_bias) const;

 private:
  const core::ParameterStore* parameters_ = nullptr;
  int slice_ = -1;
  std::int32_t reach_ = 0;
  core::Buffer<std::int32_t> buckets_;
};

}  // namespace bert_hpc::layers
