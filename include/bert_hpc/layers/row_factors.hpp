// The factors g = m / ‖w + s·b̂ᵀ·a‖ of the rows of weights beside which an adapter has a magnitude
// (layers/low_rank_adapter.hpp). They are computed once after each change of the parameters, not in every micro-batch.
#pragma once

#include <cstdint>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/layers/tensor_group.hpp"

namespace bert_hpc::layers {

class RowFactors {
 public:
  /// `parameters` must outlive this object. Allocates nothing if they are only a layout. `group`: the ranks
  /// that share out each layer.
  explicit RowFactors(const core::ParameterStore& parameters, const TensorGroup& group = {});

  struct Rows {
    const float* factors = nullptr;  ///< g; 1 in joined layers without a magnitude
    const float* norms = nullptr;    ///< 1 there
  };
  /// Factors of `joined` weights, the first of which is the slice `weight`. `scale`: s. Collective over the group, the
  /// first time after a change of the parameters.
  Rows of(int weight, std::int64_t joined, float scale);
  /// Computes what a change of the parameters has made old. Collective over the group.
  void renew(float scale);

  std::int64_t bytes() const { return 2 * rows_ * static_cast<std::int64_t>(sizeof(float)); }

 private:
  struct Layer {
    int weight = 0, a = 0, b = 0, magnitude = 0;  // slices
    std::uint64_t version = 0;                    // of the parameters that its rows are of
  };
  void renew(Layer& layer, float scale);
  std::int64_t begin_of(int weight) const { return begins_[static_cast<std::size_t>(weight)]; }

  const core::ParameterStore& parameters_;
  TensorGroup group_;
  std::vector<Layer> layers_;         // ascending by weight
  std::vector<std::int64_t> begins_;  // by slice, in the arrays; -1: not there
  std::int64_t rows_ = 0;
  core::Buffer<float> factors_, norms_;
};

/// The magnitudes with which adapters whose b̂ is zero change nothing: m = ‖w‖ of each row. Collective over the group.
void set_magnitudes(core::ParameterStore& parameters, const TensorGroup& group = {});

}  // namespace bert_hpc::layers
