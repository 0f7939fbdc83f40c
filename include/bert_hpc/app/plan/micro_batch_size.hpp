// Tokens of a micro-batch if the input does not set them. On CPUs few: GEMMs reach full speed from some thousand rows
// on, and few tokens save memory. On GPUs as many as fit: each micro-batch launches every kernel once and reads and
// writes all weight gradients.
#pragma once

#include <cstdint>
#include <functional>

#include "bert_hpc/app/run/run_context.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

inline constexpr std::int64_t least_micro_tokens = 4096;
inline constexpr std::int64_t max_micro_tokens = std::int64_t{64} << 10;
/// For a plan for GPUs whose memory is not known.
inline constexpr std::int64_t planned_micro_tokens = std::int64_t{16} << 10;

/// The largest number of tokens, in steps of half and a quarter of powers of two, whose `bytes` (ascending) are at most
/// `available`; least_micro_tokens if nothing larger fits. Pure.
std::int64_t largest_micro_tokens(std::int64_t available,
                                  const std::function<std::int64_t(std::int64_t tokens)>& bytes);

/// Collective over all ranks, which get the same. CPU builds: least_micro_tokens.
std::int64_t usual_micro_tokens(const RunContext& context, const model::ModelConfig& config,
                                const data::ShardReader& reader);

}  // namespace bert_hpc::app
