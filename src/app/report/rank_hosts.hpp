// Groups ranks by host and formats cores and hosts.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "app/report/banner.hpp"

namespace bert_hpc::app {

/// Ranks of each host; hosts in the order of their first rank.
std::vector<std::pair<std::string, std::vector<int>>> ranks_by_host(const std::vector<RankPlacement>& ranks);

std::string cores_text(const std::vector<int>& cores);
std::string hosts_text(const std::vector<std::string>& hosts);

}  // namespace bert_hpc::app
