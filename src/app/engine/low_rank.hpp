// Low-rank adapters of a run ([model.lora]): their settings, from the input or from the adapter that it names, and the
// values that such an adapter has.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/model/peft_adapter.hpp"

namespace bert_hpc::app {

/// The adapter that [model.lora] adapter names. Throws Error(files).
std::optional<model::PeftAdapter> adapter_of(const config::Config& input, const std::string& family);

/// The settings of a training with trainable = "lora". Throws Error(input) if the input says other things than the
/// adapter that it names, or excludes adapters, and Error(files) where that cannot be read.
model::LowRankSettings low_rank_settings(const config::Config& input, const std::string& family);

/// "24 of rank 4 beside query, value; scale 2"; "" if there are none. Pure.
std::string adapters_text(const model::ModelPlan& plan);

/// Throws Error(files) if the adapter does not fit the model, or belongs to another base model: its parameters'
/// hash is compared where one is given.
void require_fit(const model::PeftAdapter& adapter, const ModelInstance& model, const std::string& folder,
                 std::optional<std::uint64_t> base_hash);

/// Names of the head's parameters.
std::set<std::string> head_names(const ModelInstance& model);

/// Collective over all ranks. A hash of the base model's parameters, the same on every layout: of all but adapters and
/// head. Waits for the kernels.
std::uint64_t base_hash(const ModelInstance& model);

}  // namespace bert_hpc::app
