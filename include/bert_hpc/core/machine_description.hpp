// What a planned run's time depends on: how fast one rank computes and moves memory, how fast ranks talk, and which of
// them share a node. Plain numbers from a file (config/machine_description.hpp) or from measurement.
#pragma once

#include <cstdint>
#include <string>

namespace bert_hpc::core {

struct LinkRates {
  double bandwidth = 0;  ///< bytes/s in each direction, of one rank
  double latency = 0;    ///< seconds
};

struct MachineDescription {
  std::string name;
  bool measured = false;        ///< else from data sheets
  std::int64_t node_ranks = 1;  ///< ranks on a node
  double memory = 0;            ///< bytes that one rank may take
  double flops = 0;             ///< floating-point operations/s that one rank reaches in matrix products
  double memory_bandwidth = 0;  ///< bytes/s of one rank
  LinkRates in_node, between_nodes;
};

}  // namespace bert_hpc::core
