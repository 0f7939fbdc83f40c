// What a planned run's time depends on: how fast one rank computes and moves memory, how fast ranks talk, and which of
// them share a node. Plain numbers from a file (config/machine_description.hpp) or from measurement
// (app/report/machine_measurement.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::core {

struct LinkRates {
  double bandwidth = 0;         ///< bytes/s of messages in each direction, of one rank
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
  bool measured = false;        ///< else from data sheets
  bool gpu = false;             ///< a rank is a GPU
  std::int64_t node_ranks = 1;  ///< ranks on a node
  double memory = 0;            ///< bytes that one rank may take
  double flops = 0;             ///< floating-point operations/s that one rank reaches in GEMMs
  std::vector<GemmRate> gemm;   ///< the same by hidden size, ascending; empty: `flops` for all
  double memory_bandwidth = 0;  ///< bytes/s of one rank
  LinkRates in_node, between_nodes;

  // Where 0 stands, the general rates above hold, or no overhead.
  double activation_bandwidth = 0;  ///< bytes/s of element-wise kernels (layer norm, GELU, dropout, residuals)
  double attention_flops = 0;       ///< operations/s of attention
  double attention_row = 0;         ///< seconds per query row and head beside them
  double pass_overhead = 0;         ///< seconds per pass of a sublayer: launches, threads that start and end
  double step_overhead = 0;         ///< seconds per step: plan, loss, norm
  double core_share = 1;            ///< of its cores that a rank gets while all ranks compute; below 1 where they share
  double storage_bandwidth = 5e8;   ///< bytes/s at which all ranks together write a checkpoint
};

/// The machine with the GEMM rate of this hidden size: interpolated between measured sizes, constant beyond them.
MachineDescription at_hidden(MachineDescription machine, double hidden);

}  // namespace bert_hpc::core
