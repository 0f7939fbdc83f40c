#include "app/report/banner.hpp"

#include <algorithm>
#include <set>

#include "app/report/rank_hosts.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

namespace {

constexpr int listed_ranks = 8;  // per node, one line each; more ranks share one line

std::string placement_text(const RankPlacement& rank) {
  std::string text = core::counted(rank.threads, "thread");
  if (rank.device != "CPU" && !rank.device.empty()) text = rank.device + ", " + text;
  if (!rank.cores.empty()) text += " on " + cores_text(rank.cores);
  if (!rank.numa_nodes.empty()) {
    text += std::string(" (NUMA ") + (rank.numa_nodes.size() == 1 ? "node " : "nodes ") +
            format_core_list(rank.numa_nodes) +
            (rank.device_node >= 0 ? ", the GPU's " + std::to_string(rank.device_node) : "") + ')';
  }
  return text;
}

std::vector<int> united(const std::vector<RankPlacement>& ranks, const std::vector<int>& members, bool numa) {
  std::set<int> all;
  for (const int r : members) {
    const RankPlacement& rank = ranks[static_cast<std::size_t>(r)];
    const std::vector<int>& one = numa ? rank.numa_nodes : rank.cores;
    all.insert(one.begin(), one.end());
  }
  return {all.begin(), all.end()};
}

/// The ranks of one node, numbered from 0 within it, so that equal nodes give equal texts.
std::vector<std::string> host_lines(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::vector<std::string> lines;
  const auto at = [&](std::size_t i) -> const RankPlacement& { return ranks[static_cast<std::size_t>(members[i])]; };
  if (members.size() <= listed_ranks) {
    for (std::size_t i = 0; i < members.size();) {
      std::size_t last = i;
      while (last + 1 < members.size() && at(last + 1) == at(i)) ++last;
      lines.push_back(
          (last == i ? std::to_string(i) + ": " : std::to_string(i) + '-' + std::to_string(last) + ": each ") +
          placement_text(at(i)));
      i = last + 1;
    }
    return lines;
  }
  RankPlacement all = at(0);
  int most = all.threads;
  for (std::size_t i = 0; i < members.size(); ++i) most = std::max(most, at(i).threads);
  all.threads = most;
  all.cores = united(ranks, members, false);
  all.numa_nodes = united(ranks, members, true);
  lines.push_back(core::counted(static_cast<std::int64_t>(members.size()), "rank") + ", each " + placement_text(all) +
                  " in all");
  return lines;
}

/// Nodes with identical rank placement.
struct HostGroup {
  std::vector<std::string> hosts;
  std::vector<std::string> lines;
  int first_rank = 0, last_rank = 0;
};

std::vector<HostGroup> host_groups(const std::vector<RankPlacement>& ranks) {
  std::vector<HostGroup> groups;
  for (const auto& [host, members] : ranks_by_host(ranks)) {
    const std::vector<std::string> lines = host_lines(ranks, members);
    auto same =
        std::find_if(groups.begin(), groups.end(), [&lines](const HostGroup& group) { return group.lines == lines; });
    if (same == groups.end()) same = groups.insert(groups.end(), {{}, lines, members.front(), members.back()});
    same->hosts.push_back(host);
    same->last_rank = std::max(same->last_rank, members.back());
  }
  return groups;
}

class Page {
 public:
  void line(const std::string& name, const std::string& text) {
    if (text.empty()) return;
    text_ += "  " + name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') + text + '\n';
  }
  std::string text_;
};

std::string memory_text(const std::vector<std::pair<std::string, std::int64_t>>& memory) {
  std::int64_t total = 0;
  std::string parts;
  for (const auto& [name, bytes] : memory) {
    total += bytes;
    parts += (parts.empty() ? "" : ", ") + name + ' ' + core::format_bytes(bytes);
  }
  return memory.empty() ? "" : core::format_bytes(total) + " per rank (" + parts + ')';
}

std::string parameters_text(const BannerFacts& facts) {
  const std::string all = core::with_commas(facts.parameters);
  if (!facts.trainable_parameters) return all;
  const double share = static_cast<double>(*facts.trainable_parameters) / static_cast<double>(facts.parameters);
  return all + ", of which " + core::with_commas(*facts.trainable_parameters) + " are trained (" +
         core::format_number(100 * share, 3) + "%)";
}

}  // namespace

std::string banner(const BannerFacts& facts) {
  Page page;
  page.text_ = "bert_hpc " + facts.version + " (" + facts.revision + ")\n";
  page.line("libraries", core::listed(facts.libraries, "and", false));
  page.line("kernels", facts.kernels);
  page.line("processor", facts.processor + (facts.instruction_sets.empty() ? "" : " (" + facts.instruction_sets + ')'));
  page.line("input", facts.input);
  page.line("run", facts.run);
  const std::vector<HostGroup> groups = host_groups(facts.ranks);
  std::int64_t hosts = 0;
  for (const HostGroup& group : groups) hosts += static_cast<std::int64_t>(group.hosts.size());
  const std::string here =
      core::counted(static_cast<std::int64_t>(facts.ranks.size()), "rank") + " on " + core::counted(hosts, "node");
  page.line("ranks", facts.planned_ranks == 0
                         ? here
                         : core::with_commas(facts.planned_ranks) + " planned; this check runs on " + here);
  constexpr std::size_t max_groups = 16;
  for (std::size_t g = 0; g < std::min(groups.size(), max_groups); ++g) {
    page.line("", hosts_text(groups[g].hosts) + ", from rank " + std::to_string(groups[g].first_rank) + ':');
    for (const std::string& line : groups[g].lines) page.line("", "  " + line);
  }
  if (groups.size() > max_groups)
    page.line("", "and " + std::to_string(groups.size() - max_groups) + " more kinds of nodes");
  page.line("layout", facts.layout);
  page.line("model", facts.model);
  if (facts.parameters > 0) page.line("parameters", parameters_text(facts));
  if (facts.flops_per_token > 0)
    page.line("FLOPs", core::format_metric(facts.flops_per_token) + "FLOP per token (" + facts.flops_of + ")");
  page.line("memory", memory_text(facts.memory));
  for (const auto& [name, text] : facts.more) page.line(name, text);
  return page.text_;
}

}  // namespace bert_hpc::app
