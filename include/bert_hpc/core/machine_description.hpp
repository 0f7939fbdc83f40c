// Machine parameters that determine the time of a planned run: compute rate and memory bandwidth of a rank,
// communication rates between ranks, and ranks per node. Plain numbers from a file (config/machine_description.hpp) or
// from measurement (app/report/machine_measurement.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::core {

struct LinkRates {
  double bandwidth = 0;         ///< bytes/s of messages of one rank, each direction
  double latency = 0;           ///< seconds
  double reduce_bandwidth = 0;  ///< bytes/s of a ring's reduce-scatter; 0: as messages
  double gather_bandwidth = 0;  ///< bytes/s of a ring's all-gather; 0: as messages
};

/// The GEMM rate of a rank in models of one hidden size.
struct GemmRate {
  double hidden = 0, flops = 0;
};

struct MachineDescription {
  std::string name;
  bool measured = false;        ///< false: from data sheets
  bool gpu = false;             ///< each rank uses a GPU
  std::int64_t node_ranks = 1;  ///< ranks on a node
  double memory = 0;            ///< bytes available to one rank
  double flops = 0;             ///< floating-point operations/s of one rank in GEMMs
  std::vector<GemmRate> gemm;   ///< the same by hidden size, ascending; empty: `flops` for all sizes
  double memory_bandwidth = 0;  ///< bytes/s of one rank
  LinkRates in_node, between_nodes;

  // A value of 0 means: use the general rates above, or no overhead.
  double activation_bandwidth = 0;  ///< bytes/s of element-wise kernels (layer norm, GELU, dropout, residuals)
  double attention_flops = 0;       ///< operations/s of attention
  double attention_row = 0;         ///< additional seconds per query row and head
  double pass_overhead = 0;         ///< seconds per pass of a sublayer: launches, start and end of threads
  double step_overhead = 0;         ///< seconds per step: plan, loss, norm
  double core_share = 1;  ///< share of its cores that a rank gets while all ranks compute; below 1 if ranks share cores
  double storage_bandwidth = 5e8;  ///< bytes/s of all ranks together when they write a checkpoint
};

/// The machine with the GEMM rate for this hidden size: interpolated between measured sizes, constant outside them.
MachineDescription at_hidden(MachineDescription machine, double hidden);

}  // namespace bert_hpc::core
