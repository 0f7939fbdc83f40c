// Warnings of the banner: ranks on too few cores or far from their GPU, too little memory, an input that asks for more
// than there is. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "app/report/banner.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::app {

/// Ranks that share cores with too few for their threads, ranks with more threads than cores, ranks on another NUMA
/// node than their GPU, and ranks of a node that see one GPU each, each with its cure; equal cases on several nodes are
/// one warning.
std::vector<std::string> placement_warnings(const std::vector<RankPlacement>& ranks);

/// Warning that `ranks` ranks of `rank_bytes` each do not fit into the `available` bytes of `where` ("this node", "a
/// rank of NAME"); "" if they fit, or where `available` is unknown (0).
std::string memory_warning(std::int64_t rank_bytes, int ranks, std::int64_t available, const std::string& where);

/// Note that a CPU build planned the memory of `machine`, which has GPUs: what differs there; else "".
std::string build_note(bool is_gpu_build, const core::MachineDescription& machine);

/// "64 sequences", or if a step draws groups "64 queries", "64 rows of texts".
std::string units_text(const config::Config& input, std::int64_t units, bool groups);

/// What of a training's input asks for more than there is: a warm-up beyond the last step, a batch beyond the data.
/// `units`: what there is to train on, sequences or groups. `first_full_step`: from which on updates have batch.global.
std::vector<std::string> training_warnings(const config::Config& input, std::int64_t steps, std::int64_t units,
                                           bool groups = false, std::int64_t first_full_step = 0);

/// Note that a run on a GPU computes in fp32 because its input does not choose, or that one on a CPU computes in 16
/// bits without AMX, which the processor has; else "". `instruction_sets`: as Machine has them.
std::string precision_note(const config::Precision& precision, bool on_gpu, const std::string& instruction_sets,
                           bool uses_amx);

}  // namespace bert_hpc::app
