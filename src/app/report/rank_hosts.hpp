// Groups ranks by host and formats cores and hosts.
#pragma once

#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace bert_hpc::app {

/// Host, device and cores of one rank.
struct RankPlacement {
  std::string host, device;  ///< device: "CPU" or a GPU's name
  int threads = 1;
  std::vector<int> cores;  ///< logical cores it may use; empty: unknown
  std::vector<int> numa_nodes;
  int device_node = -1;           ///< NUMA node that its GPU is connected to; −1: unknown, or no GPU
  std::string device_identity{};  ///< the same for two ranks exactly if they use one GPU; empty on CPUs
  int visible_devices = 0;        ///< GPUs that it sees

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.host, self.device, self.threads, self.cores, self.numa_nodes, self.device_node,
                    self.device_identity, self.visible_devices);
  }
  bool operator==(const RankPlacement&) const = default;
};

/// Ranks of each host; hosts in the order of their first rank.
std::vector<std::pair<std::string, std::vector<int>>> ranks_by_host(const std::vector<RankPlacement>& ranks);

std::string cores_text(const std::vector<int>& cores);
std::string hosts_text(const std::vector<std::string>& hosts);

}  // namespace bert_hpc::app
