// What this process runs on, asked of Linux: host, cores that it may use and their NUMA nodes, processor, memory. Where
// the system does not say (containers hide files), fields stay empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::app {

struct Machine {
  std::string host;
  std::string processor;         ///< model name
  std::string instruction_sets;  ///< those that matter here, e.g. "AVX2, AVX-512, AVX-512 BF16"
  std::vector<int> cores;        ///< logical cores of this process's affinity, ascending
  std::vector<int> numa_nodes;   ///< of those cores, ascending
};

Machine inspect_machine();

struct ProcessMemory {
  std::int64_t resident = 0, peak_resident = 0;  ///< bytes; 0: unknown
};

ProcessMemory process_memory();

// The pure parts.

/// "0-3,8" to numbers and back. Reading ignores what is not such a list.
std::vector<int> parse_core_list(const std::string& text);
std::string format_core_list(const std::vector<int>& cores);

/// NUMA nodes that hold one of the cores, from a folder like /sys/devices/system/node.
std::vector<int> numa_nodes_of(const std::vector<int>& cores, const std::string& folder);

/// From the texts of /proc/self/status and /proc/self/smaps_rollup: VmRSS and VmHWM, but of the memory that ranks share
/// this process's share.
ProcessMemory memory_from_status(const std::string& status, const std::string& smaps_rollup);

/// From the text of /proc/cpuinfo: model name, and the instruction sets behind "flags".
std::string processor_from_cpuinfo(const std::string& cpuinfo);
std::string instruction_sets_from_cpuinfo(const std::string& cpuinfo);

/// Bytes of memory that this host has; 0 where the system does not say.
std::int64_t host_memory();

}  // namespace bert_hpc::app
