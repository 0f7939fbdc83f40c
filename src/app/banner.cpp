#include "bert_hpc/app/banner.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <tuple>

#include "bert_hpc/app/machine.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {

namespace {

constexpr int listed_ranks = 8;  // of a host, one line each; more are told together

/// Ranks of each host, hosts in the order of their first rank.
std::vector<std::pair<std::string, std::vector<int>>> ranks_by_host(const std::vector<RankPlacement>& ranks) {
  std::vector<std::pair<std::string, std::vector<int>>> hosts;
  std::map<std::string, std::size_t> index;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto [place, fresh] = index.emplace(ranks[r].host, hosts.size());
    if (fresh) hosts.push_back({ranks[r].host, {}});
    hosts[place->second].second.push_back(static_cast<int>(r));
  }
  return hosts;
}

std::string cores_text(const std::vector<int>& cores) {
  return (cores.size() == 1 ? "core " : "cores ") + format_core_list(cores);
}

std::string place_text(const RankPlacement& rank) {
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

/// A host's ranks, numbered from 0 within the host, so that equal hosts have equal texts.
std::vector<std::string> host_lines(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::vector<std::string> lines;
  const auto at = [&](std::size_t i) -> const RankPlacement& { return ranks[static_cast<std::size_t>(members[i])]; };
  if (members.size() <= listed_ranks) {
    for (std::size_t i = 0; i < members.size();) {
      std::size_t last = i;
      while (last + 1 < members.size() && at(last + 1) == at(i)) ++last;
      lines.push_back(
          (last == i ? std::to_string(i) + ": " : std::to_string(i) + '-' + std::to_string(last) + ": each ") +
          place_text(at(i)));
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
  lines.push_back(core::counted(static_cast<std::int64_t>(members.size()), "rank") + ", each " + place_text(all) +
                  " in all");
  return lines;
}

/// Hosts whose ranks are placed alike.
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

std::string hosts_text(const std::vector<std::string>& hosts) {
  if (hosts.size() == 1) return hosts.front();
  if (hosts.size() == 2) return hosts[0] + " and " + hosts[1];
  return std::to_string(hosts.size()) + " hosts, " + hosts.front() + " to " + hosts.back();
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
  return memory.empty() ? "" : core::format_bytes(total) + " a rank (" + parts + ')';
}

struct Sharing {
  std::vector<int> members;  // ranks, by place on their host
  std::vector<int> cores;
  int threads = 0;
};

/// Ranks of one host that are connected through shared cores, with their cores and threads together.
std::vector<Sharing> sharings(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::vector<Sharing> groups;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const RankPlacement& rank = ranks[static_cast<std::size_t>(members[i])];
    if (rank.cores.empty()) continue;
    Sharing joined{{static_cast<int>(i)}, rank.cores, rank.threads};
    for (auto group = groups.begin(); group != groups.end();) {
      std::vector<int> common, all;
      std::set_intersection(group->cores.begin(), group->cores.end(), joined.cores.begin(), joined.cores.end(),
                            std::back_inserter(common));
      if (common.empty()) {
        ++group;
        continue;
      }
      std::set_union(group->cores.begin(), group->cores.end(), joined.cores.begin(), joined.cores.end(),
                     std::back_inserter(all));
      joined.members.insert(joined.members.end(), group->members.begin(), group->members.end());
      joined.cores = std::move(all);
      joined.threads += group->threads;
      group = groups.erase(group);
    }
    std::sort(joined.members.begin(), joined.members.end());
    groups.push_back(std::move(joined));
  }
  return groups;
}

/// One warning for `times` alike groups of ranks on a host.
std::string warning_text(const Sharing& group, int times) {
  const int cores = static_cast<int>(group.cores.size());
  const int count = static_cast<int>(group.members.size());
  if (count == 1) {
    const std::string subject = times == 1 ? "a rank runs " : std::to_string(times) + " ranks each run ";
    return subject + core::counted(group.threads, "thread") + " on " + core::counted(cores, "core") +
           ": set OMP_NUM_THREADS=" + std::to_string(cores) +
           ", or give each rank more cores (mpirun --bind-to none, srun --cpus-per-task=" +
           std::to_string(group.threads) + ')';
  }
  const int each = cores / count;
  const std::string own = std::to_string(std::max(each, 1));
  return core::counted(count, "rank") + " with " + core::counted(group.threads, "thread") + " in all share " +
         cores_text(group.cores) + (times == 1 ? "" : " (and " + std::to_string(times - 1) + " more such groups)") +
         ": " + (each >= 1 ? "set OMP_NUM_THREADS=" + own : "start fewer ranks") +
         ", or bind each rank to cores of its own (mpirun --map-by slot:PE=" + own + ", srun --cpus-per-task=" + own +
         " --cpu-bind=cores)";
}

/// Ranks none of whose cores are on the NUMA node of their GPU: every launch and copy crosses the host.
std::string far_from_gpu(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::vector<int> far;
  const RankPlacement* first = nullptr;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const RankPlacement& rank = ranks[static_cast<std::size_t>(members[i])];
    const std::vector<int>& nodes = rank.numa_nodes;
    if (rank.device_node < 0 || nodes.empty()) continue;
    if (std::find(nodes.begin(), nodes.end(), rank.device_node) != nodes.end()) continue;
    if (first == nullptr) first = &rank;
    far.push_back(static_cast<int>(i));
  }
  if (far.empty()) return {};
  return (far.size() == 1 ? "rank " : "ranks ") + format_core_list(far) + (far.size() == 1 ? " runs" : " run") +
         " far from the GPU: on NUMA node " + format_core_list(first->numa_nodes) + ", the GPU on node " +
         std::to_string(first->device_node) + (far.size() == 1 ? "" : " (the first of them)") +
         "; bind each rank to its GPU's cores (srun --gpus-per-task=1 --gpu-bind=closest, mpirun --map-by "
         "ppr:N:numa --bind-to numa)";
}

/// Warnings of one host, without its name; groups of the same numbers are one warning.
std::vector<std::string> host_warnings(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::map<std::tuple<std::size_t, int, std::size_t>, std::pair<Sharing, int>> kinds;
  for (const Sharing& group : sharings(ranks, members)) {
    if (group.threads <= static_cast<int>(group.cores.size())) continue;
    ++kinds.try_emplace({group.members.size(), group.threads, group.cores.size()}, group, 0).first->second.second;
  }
  std::vector<std::string> warnings;
  for (const auto& [key, kind] : kinds) warnings.push_back(warning_text(kind.first, kind.second));
  if (std::string far = far_from_gpu(ranks, members); !far.empty()) warnings.push_back(std::move(far));
  return warnings;
}

}  // namespace

std::string encode(const RankPlacement& placement) {
  return placement.host + '\t' + placement.device + '\t' + std::to_string(placement.threads) + '\t' +
         format_core_list(placement.cores) + '\t' + format_core_list(placement.numa_nodes) + '\t' +
         std::to_string(placement.device_node);
}

RankPlacement decode_placement(const std::string& text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const auto tab = std::min(text.find('\t', begin), text.size());
    parts.push_back(text.substr(begin, tab - begin));
    begin = tab + 1;
  }
  if (parts.size() != 6) return {};
  RankPlacement placement{parts[0], parts[1], 1, parse_core_list(parts[3]), parse_core_list(parts[4])};
  std::from_chars(parts[2].data(), parts[2].data() + parts[2].size(), placement.threads);
  std::from_chars(parts[5].data(), parts[5].data() + parts[5].size(), placement.device_node);
  return placement;
}

std::string banner(const BannerFacts& facts) {
  Page page;
  page.text_ = "bert_hpc " + facts.version + " (" + facts.revision + ")\n";
  page.line("libraries", core::listed(facts.libraries, "and", false));
  page.line("processor", facts.processor + (facts.instruction_sets.empty() ? "" : " (" + facts.instruction_sets + ')'));
  page.line("input", facts.input);
  page.line("run", facts.run);
  const std::vector<HostGroup> groups = host_groups(facts.ranks);
  std::int64_t hosts = 0;
  for (const HostGroup& group : groups) hosts += static_cast<std::int64_t>(group.hosts.size());
  const std::string here =
      core::counted(static_cast<std::int64_t>(facts.ranks.size()), "rank") + " on " + core::counted(hosts, "host");
  page.line("ranks", facts.planned_ranks == 0 ? here
                                              : core::with_commas(facts.planned_ranks) +
                                                    " planned, for what follows; this check itself: " + here);
  constexpr std::size_t most_groups = 16;
  for (std::size_t g = 0; g < std::min(groups.size(), most_groups); ++g) {
    page.line("", hosts_text(groups[g].hosts) + ", from rank " + std::to_string(groups[g].first_rank) + ':');
    for (const std::string& line : groups[g].lines) page.line("", "  " + line);
  }
  if (groups.size() > most_groups)
    page.line("", "and " + std::to_string(groups.size() - most_groups) + " more kinds of hosts");
  page.line("layout", facts.layout);
  page.line("model", facts.model);
  if (facts.parameters > 0) page.line("parameters", core::with_commas(facts.parameters));
  if (facts.flops_per_token > 0) page.line("work", core::format_metric(facts.flops_per_token) + "FLOP a token");
  page.line("memory", memory_text(facts.memory));
  for (const auto& [name, text] : facts.more) page.line(name, text);
  return page.text_;
}

std::vector<std::string> placement_warnings(const std::vector<RankPlacement>& ranks) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> kinds;  // warnings, their hosts
  for (const auto& [host, members] : ranks_by_host(ranks)) {
    const std::vector<std::string> warnings = host_warnings(ranks, members);
    if (warnings.empty()) continue;
    const auto same =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == warnings; });
    if (same != kinds.end()) {
      same->second.push_back(host);
    } else {
      kinds.push_back({warnings, {host}});
    }
  }
  std::vector<std::string> result;
  for (const auto& [warnings, hosts] : kinds) {
    for (const std::string& warning : warnings) {
      const std::string text = "on " + hosts_text(hosts) + ", " + warning;
      if (std::find(result.begin(), result.end(), text) == result.end()) result.push_back(text);
    }
  }
  return result;
}

std::string memory_warning(std::int64_t rank_bytes, int ranks, std::int64_t host_bytes) {
  const double needed = static_cast<double>(rank_bytes) * ranks;  // whole numbers could overflow
  if (host_bytes <= 0 || needed <= static_cast<double>(host_bytes)) return {};
  return core::format_bytes(rank_bytes) + " are planned for " +
         (ranks == 1 ? "a rank" : "each of " + std::to_string(ranks) + " ranks") + ", and this host has " +
         core::format_bytes(host_bytes) +
         ": set batch.micro_tokens lower, take a smaller model, or spread it over more hosts (parallel.pipeline, "
         "parallel.tensor, parallel.zero)";
}

std::vector<std::string> training_warnings(const config::Config& input, std::int64_t steps, std::int64_t sequences) {
  std::vector<std::string> warnings;
  if (input.schedule.warmup_steps.value_or(0) > steps) {
    warnings.push_back("schedule.warmup_steps = " + core::with_commas(*input.schedule.warmup_steps) +
                       " is more than the run's " + core::counted(steps, "step") +
                       ": the peak learning rate is never reached");
  }
  if (input.batch.global > sequences) {
    warnings.push_back("batch.global = " + core::with_commas(input.batch.global) + " is more than the " +
                       core::counted(sequences, "sequence") + " to train on: every update takes all of them");
  }
  return warnings;
}

}  // namespace bert_hpc::app
