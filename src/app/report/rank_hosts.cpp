#include "app/report/rank_hosts.hpp"

#include <map>

#include "app/run/machine.hpp"

namespace bert_hpc::app {

std::vector<std::pair<std::string, std::vector<int>>> ranks_by_host(const std::vector<RankPlacement>& ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> hosts;
  std::map<std::string, std::size_t> index;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto [entry, fresh] = index.emplace(ranks[r].host, hosts.size());
    if (fresh) hosts.push_back({ranks[r].host, {}});
    hosts[entry->second].second.push_back(static_cast<int>(r));
  }
  return hosts;
}

std::string cores_text(const std::vector<int>& cores) {
  return (cores.size() == 1 ? "core " : "cores ") + format_core_list(cores);
}

std::string hosts_text(const std::vector<std::string>& hosts) {
  if (hosts.size() == 1) return hosts.front();
  if (hosts.size() == 2) return hosts[0] + " and " + hosts[1];
  return std::to_string(hosts.size()) + " nodes, " + hosts.front() + " to " + hosts.back();
}

}  // namespace bert_hpc::app
