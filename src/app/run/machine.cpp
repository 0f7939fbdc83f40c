#include "app/run/machine.hpp"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <utility>

namespace bert_hpc::app {

namespace {

std::string file_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

std::vector<int> affinity() {
  // The kernel rejects sets smaller than its own: grow until it accepts.
  for (int most = 1024; most <= 1 << 20; most *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(most));
    if (set == nullptr) return {};
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    CPU_ZERO_S(bytes, set);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    std::vector<int> cores;
    for (int core = 0; known && core < most; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set)) cores.push_back(core);
    }
    CPU_FREE(set);
    if (known) return cores;
  }
  return {};
}

/// The text after "name   : " in cpuinfo or "name:" in status, up to the end of the line.
std::string value_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    const auto colon = line.find(':');
    if (colon == std::string::npos || !line.starts_with(name)) continue;
    if (line.find_first_not_of(" \t", name.size()) != colon) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return {};
}

std::int64_t kilobytes(const std::string& value) {
  std::int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number * 1024;
}

}  // namespace

Machine inspect_machine() {
  Machine machine;
  char host[256] = "";
  if (gethostname(host, sizeof host - 1) == 0) machine.host = host;
  const std::string cpuinfo = file_text("/proc/cpuinfo");
  machine.processor = processor_from_cpuinfo(cpuinfo);
  machine.instruction_sets = instruction_sets_from_cpuinfo(cpuinfo);
  machine.cores = affinity();
  machine.numa_nodes = numa_nodes_of(machine.cores, "/sys/devices/system/node");
  return machine;
}

ProcessMemory process_memory() {
  return memory_from_status(file_text("/proc/self/status"), file_text("/proc/self/smaps_rollup"));
}

std::vector<int> parse_core_list(const std::string& text) {
  std::set<int> cores;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    int first = 0;
    const auto read = std::from_chars(at, end, first);
    if (read.ec != std::errc() || first < 0) return {cores.begin(), cores.end()};
    int last = first;
    at = read.ptr;
    if (at < end && *at == '-') {
      const auto second = std::from_chars(at + 1, end, last);
      if (second.ec != std::errc() || last < first || last - first > 1 << 20) return {cores.begin(), cores.end()};
      at = second.ptr;
    }
    for (int core = first; core <= last; ++core) cores.insert(core);
    if (at < end && *at != ',') break;
    ++at;
  }
  return {cores.begin(), cores.end()};
}

std::string format_core_list(const std::vector<int>& cores) {
  std::string text;
  for (std::size_t i = 0; i < cores.size();) {
    std::size_t last = i;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    if (!text.empty()) text += ',';
    text += std::to_string(cores[i]);
    if (last > i) text += '-' + std::to_string(cores[last]);
    i = last + 1;
  }
  return text;
}

std::vector<int> numa_nodes_of(const std::vector<int>& cores, const std::string& folder) {
  std::vector<int> nodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const std::vector<int> number = name.starts_with("node") ? parse_core_list(name.substr(4)) : std::vector<int>{};
    if (number.size() != 1) continue;
    const std::vector<int> its = parse_core_list(file_text((entry.path() / "cpulist").string()));
    const bool shares = std::any_of(cores.begin(), cores.end(),
                                    [&its](int core) { return std::binary_search(its.begin(), its.end(), core); });
    if (shares) nodes.push_back(number.front());
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

ProcessMemory memory_from_status(const std::string& status, const std::string& smaps_rollup) {
  // Linux reports the proportional share of shared pages since version 5.4.
  const std::string share = value_of(smaps_rollup, "Pss_Shmem"), whole = value_of(status, "RssShmem");
  const std::int64_t others = share.empty() || whole.empty() ? 0 : kilobytes(whole) - kilobytes(share);
  return {kilobytes(value_of(status, "VmRSS")) - others, kilobytes(value_of(status, "VmHWM")) - others};
}

std::string processor_from_cpuinfo(const std::string& cpuinfo) {
  return value_of(cpuinfo, "model name");
}

std::string instruction_sets_from_cpuinfo(const std::string& cpuinfo) {
  static constexpr std::pair<const char*, const char*> known[] = {
      {"avx2", "AVX2"},    {"fma", "FMA"},    {"avx512f", "AVX-512"}, {"avx512_bf16", "AVX-512 BF16"},
      {"amx_tile", "AMX"}, {"asimd", "NEON"}, {"sve", "SVE"}};
  std::istringstream words(value_of(cpuinfo, "flags") + ' ' + value_of(cpuinfo, "Features"));
  std::set<std::string> flags;
  for (std::string word; words >> word;) flags.insert(word);
  std::string text;
  for (const auto& [flag, name] : known) {
    if (flags.contains(flag)) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

std::int64_t host_memory() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), bytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && bytes > 0 ? std::int64_t{pages} * bytes : 0;
}

}  // namespace bert_hpc::app
