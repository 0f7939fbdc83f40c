// Compute and memory rates of a rank. GEMMs and the optimizer are measured directly; element-wise kernels, attention
// and overheads are the remaining time of an encoder block's sublayers under the cost model that plans use
// (model/model_costs.hpp), so that model and measurement agree on whole blocks.
#pragma once

#include <functional>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/machine_description.hpp"

namespace bert_hpc::app {

/// Collective. All ranks run rounds at the same time, for about `budget` seconds; `round` returns its own seconds.
/// Returns the lower quartile of each rank's rounds, averaged over the ranks, so that other load has little influence.
double shared_seconds(comm::Communicator& world, double budget, const std::function<double()>& round);

/// Seconds of `work` on this rank, including its kernels.
double seconds_of(const std::function<void()>& work);

/// Collective. Measures GEMM rates by precision and hidden size, the rates of the optimizer, element-wise kernels and
/// attention, and overheads.
void measure_compute(comm::Communicator& world, config::MachineFile& file);

}  // namespace bert_hpc::app
