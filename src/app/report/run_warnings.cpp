#include "app/report/run_warnings.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <tuple>

#include "app/report/rank_hosts.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {

namespace {

struct Sharing {
  std::vector<int> members;  // ranks, by position on their host
  std::vector<int> cores;
  int threads = 0;
};

/// Groups of one host's ranks that share cores, with the union of their cores and the total of their threads.
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

/// One warning for `times` identical groups of ranks on a host.
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

/// Warns of ranks without a core on the NUMA node of their GPU: every launch and copy crosses the host.
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
         "; bind each rank to cores near its GPU (srun --cpu-bind=map_ldom:LIST, mpirun --map-by ppr:N:numa "
         "--bind-to numa)";
}

/// Warns of ranks of one host that use different GPUs but each see only their own. NCCL then does not find the direct
/// connections (NVLink, peer access) and copies through the host's memory: see NVIDIA/nccl issues 324 and 1066.
std::string isolated_gpus(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::set<std::string> devices;
  int isolated = 0;
  for (const int member : members) {
    const RankPlacement& rank = ranks[static_cast<std::size_t>(member)];
    if (rank.visible_devices != 1) continue;
    ++isolated;
    devices.insert(rank.device_identity);
  }
  if (devices.size() < 2) return {};
  return std::to_string(isolated) +
         " ranks see only one GPU each: NCCL may then not use NVLink between them; let each rank see all GPUs of the "
         "node (srun --gpus-per-node=" +
         std::to_string(devices.size()) +
         " --gpu-bind=none instead of --gpus-per-task or another --gpu-bind; elsewhere one CUDA_VISIBLE_DEVICES for "
         "all ranks)";
}

/// Warnings of one host, without its name; groups with the same numbers share one warning.
std::vector<std::string> host_warnings(const std::vector<RankPlacement>& ranks, const std::vector<int>& members) {
  std::map<std::tuple<std::size_t, int, std::size_t>, std::pair<Sharing, int>> kinds;
  for (const Sharing& group : sharings(ranks, members)) {
    if (group.threads <= static_cast<int>(group.cores.size())) continue;
    ++kinds.try_emplace({group.members.size(), group.threads, group.cores.size()}, group, 0).first->second.second;
  }
  std::vector<std::string> warnings;
  for (const auto& [key, kind] : kinds) warnings.push_back(warning_text(kind.first, kind.second));
  if (std::string far = far_from_gpu(ranks, members); !far.empty()) warnings.push_back(std::move(far));
  if (std::string alone = isolated_gpus(ranks, members); !alone.empty()) warnings.push_back(std::move(alone));
  return warnings;
}

}  // namespace

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

std::string memory_warning(std::int64_t rank_bytes, int ranks, std::int64_t available, const std::string& where) {
  const double needed = static_cast<double>(rank_bytes) * ranks;  // whole numbers could overflow
  if (available <= 0 || needed <= static_cast<double>(available)) return {};
  return "planned memory: " + core::format_bytes(rank_bytes) +
         (ranks == 1 ? " per rank" : " for each of " + std::to_string(ranks) + " ranks") + ", but " + where + " has " +
         core::format_bytes(available) +
         ": make micro-batches smaller ([batch]), use a smaller model, or spread it over more nodes "
         "(parallel.pipeline, parallel.tensor, parallel.zero)";
}

std::string build_note(bool is_gpu_build, const core::MachineDescription& machine) {
  if (is_gpu_build || !machine.gpu) return {};
  return "note: " + machine.name +
         " has GPUs, and a CPU build made this plan: \"packed weights and scratch\" and \"libraries\" are those of the "
         "CPU build, and no CUDA context is counted. --validate of a GPU build plans what a GPU holds";
}

std::string units_text(const config::Config& input, std::int64_t units, bool groups) {
  if (!groups) return core::counted(units, "sequence");
  const bool texts = tasks::named(input.task.name).has_text_rows();
  return core::counted(units, texts ? "row of texts" : "query", texts ? "rows of texts" : "queries");
}

std::vector<std::string> training_warnings(const config::Config& input, std::int64_t steps, std::int64_t units,
                                           bool groups, std::int64_t first_full_step) {
  std::vector<std::string> warnings;
  if (first_full_step >= steps) {
    warnings.push_back("the warm-up of the batch size is longer than the run's " + core::counted(steps, "step") +
                       ": no update has batch.global = " + core::with_commas(input.batch.global) +
                       " sequences. Shorten batch.warmup_tokens or batch.warmup_steps.");
  }
  if (input.schedule.warmup_steps.value_or(0) > steps) {
    warnings.push_back("schedule.warmup_steps = " + core::with_commas(*input.schedule.warmup_steps) +
                       " is more than the run's " + core::counted(steps, "step") +
                       ": the peak learning rate is never reached");
  }
  if (input.batch.global > units) {
    warnings.push_back("batch.global = " + core::with_commas(input.batch.global) + " is more than the " +
                       units_text(input, units, groups) + " to train on: every update takes all of them");
  }
  return warnings;
}

std::string precision_note(const config::Precision& precision, bool on_gpu, const std::string& instruction_sets,
                           bool uses_amx) {
  const bool narrow = precision.compute == "bf16" || precision.compute == "fp16";
  const bool in_tiles = precision.compute == "bf16" && uses_amx;
  if (!on_gpu && narrow && !in_tiles && instruction_sets.find("AMX") != std::string::npos) {
    return "note: [precision] compute = \"" + precision.compute +
           "\" does not use this processor's AMX and may be slower than \"fp32\"; "
           "bert_hpc --measure-machine FILE measures both";
  }
  if (!on_gpu || precision.is_given) return {};
  return "note: [precision] compute is not set: this run computes in " + precision.compute +
         ". On GPUs compute = \"bf16\" is much faster and takes less memory; README.md (Speed) has measured times";
}

}  // namespace bert_hpc::app
