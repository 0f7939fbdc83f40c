// Which linear layers of a model get a low-rank adapter (layers/low_rank_adapter.hpp), and what adapters make of the
// weights beside which they stand. Targets are named as in PEFT, Hugging Face's library of adapters.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::model {

/// A linear layer of a model's blocks.
struct BlockLayer {
  std::string name;    ///< without ".weight"
  std::string stored;  ///< its name in files, which several layers may share
  std::int64_t block = 0;
  std::int64_t in = 0, out = 0;
  bool adapted = false;
};

/// All of them, in the order of a forward pass.
std::vector<BlockLayer> block_layers(const ModelPlan& plan);

/// Gives adapters to the targets, which are names in files, but those of the lowest `frozen_blocks`. Throws
/// Error(input) with all targets that match nothing and their nearest names, and where the rank is not below a layer's
/// size.
void add_adapters(ModelPlan& plan, const LowRankSettings& settings, std::int64_t frozen_blocks);

/// PEFT's target_modules for the adapters of a plan: last parts of names where these name no other layer, else whole
/// names.
std::vector<std::string> target_modules(const ModelPlan& plan);

/// The layer whose weight this parameter is, without ".weight", where it has an adapter.
std::optional<std::string> adapted_layer(const ModelPlan& plan, const std::string& parameter);

/// An adapter's values, in host memory.
struct AdapterValues {
  float scale = 1;                    ///< s
  core::Tensor<const float> a, b;     ///< (rank, in); b̂ (rank, out)
  const float* magnitudes = nullptr;  ///< (out), or null: none
  /// (out) of the rows of w + s·b̂ᵀ·a, where the caller knows them, as it must where w is some columns of them; or null
  const float* norms = nullptr;
};

/// w += s·b̂ᵀ·a; then, with magnitudes, each row gets its magnitude as its norm. w (out, in), or some of its columns and
/// of a's.
void merge_adapter(const AdapterValues& adapter, core::Tensor<float> w);

}  // namespace bert_hpc::model
