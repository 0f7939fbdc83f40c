// Tokens of a micro-batch if the input does not set them. On CPUs few: GEMMs reach full speed from some thousand rows
// on, and few tokens save memory. On GPUs as many as fit: each micro-batch launches every kernel once and reads and
// writes all weight gradients.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "app/engine/model_instance.hpp"
#include "app/plan/pipeline_setup.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

inline constexpr std::int64_t max_micro_tokens = std::int64_t{64} << 10;
/// For a plan for GPUs whose memory is not known.
inline constexpr std::int64_t planned_micro_tokens = std::int64_t{16} << 10;

/// The largest number of tokens, in steps of half and a quarter of powers of two, whose `bytes` (ascending) are at most
/// `available`; least_micro_tokens if nothing larger fits. Pure.
std::int64_t largest_micro_tokens(std::int64_t available,
                                  const std::function<std::int64_t(std::int64_t tokens)>& bytes);

/// The largest number of tokens from `least` to max_micro_tokens, in steps of 64, whose `bytes` (ascending) are at most
/// `available`; none where those of `least` are more. Pure.
std::optional<std::int64_t> most_tokens_within(std::int64_t available, std::int64_t least,
                                               const std::function<std::int64_t(std::int64_t tokens)>& bytes);

/// Collective over all ranks. Bytes that [batch] memory allows this rank; 0 without the key. "auto": 85% of the GPU's
/// memory, or of this rank's share of the node's; in a plan with [run] machine 85% of the memory of its ranks.
std::int64_t memory_budget(const RunContext& context);

struct TeacherPlan;

/// Planned bytes of a rank beside its model and shares of parameters, gradients and states.
using BesideModel = std::function<std::int64_t(const ModelInstance&)>;

/// Automatic size on a GPU with `memory` bytes, for this rank's stage. `teacher`: beside the model, or null.
std::int64_t gpu_micro_tokens(const RunContext& context, const model::ModelConfig& config,
                              const data::ShardReader& reader, std::int64_t memory,
                              const TeacherPlan* teacher = nullptr);

/// Collective over all ranks, which get the same. With [batch] memory what fits into it: throws Error(input) where one
/// sequence at a time does not. Else on CPUs least_micro_tokens, on GPUs (RunContext::on_gpus()) what fits into their
/// memory. `teacher` as above.
std::int64_t usual_micro_tokens(const RunContext& context, const model::ModelConfig& config,
                                const data::ShardReader& reader, const BesideModel& beside,
                                const TeacherPlan* teacher = nullptr);

}  // namespace bert_hpc::app
