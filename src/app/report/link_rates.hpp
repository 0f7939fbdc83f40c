// Rates of the links between ranks, measured with the communicators of a training, and of storage.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/machine_description.hpp"

namespace bert_hpc::app {

/// Assignment of ranks to nodes.
struct NodeLayout {
  std::vector<int> node, rank_on_node;  ///< (ranks): number of the rank's node, and of the rank on that node
  int nodes = 0;
  int max_ranks = 0;  ///< largest number on a node
};
/// `hosts`: name of each rank's node. Pure.
NodeLayout node_layout(const std::vector<std::string>& hosts);

/// Collective. Measures latency and bandwidths of messages and collectives within and between nodes. With a single rank
/// or a single node, the respective link keeps its values.
void measure_links(comm::Communicator& world, const NodeLayout& layout, config::MachineFile& file);

/// Collective. Bytes/s at which all ranks together write to folder `path` and force it to the disk. Throws
/// Error(files).
double storage_rate(comm::Communicator& world, const std::string& path);

}  // namespace bert_hpc::app
