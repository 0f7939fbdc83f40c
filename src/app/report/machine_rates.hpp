// The parts of a machine measurement: what a rank computes and moves, and what ranks send each other.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/machine_description.hpp"

namespace bert_hpc::app {

/// Collective. All ranks run rounds at the same time, for about `budget` seconds; `round` returns its own seconds. The
/// lower quartile of each rank's rounds, averaged over the ranks: load by other programs counts little.
double shared_seconds(comm::Communicator& world, double budget, const std::function<double()>& round);

/// Seconds of `work` on this rank, until its kernels have ended.
double seconds_of(const std::function<void()>& work);

/// Collective. GEMM rates by precision and hidden size, the rates of the optimizer, element-wise kernels and attention,
/// and overheads.
void measure_compute(comm::Communicator& world, config::MachineFile& file);

/// Ranks by the node on which they run, and what is measured among them.
struct NodeLayout {
  std::vector<int> node, place;  ///< (ranks): number of the rank's node, and of the rank on it
  int nodes = 0;
  int most_ranks = 0;  ///< on a node
};
/// `hosts`: name of each rank's node. Pure.
NodeLayout node_layout(const std::vector<std::string>& hosts);

/// Collective. Latency and bandwidths of messages and collectives within nodes and between them. Where one rank or one
/// node is all there is, the link keeps the values that it has.
void measure_links(comm::Communicator& world, const NodeLayout& layout, config::MachineFile& file);

/// Collective. Bytes/s at which all ranks together write to `folder` and force it to the disk. Throws Error(files).
double storage_rate(comm::Communicator& world, const std::string& path);

}  // namespace bert_hpc::app
