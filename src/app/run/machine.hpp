// The hardware that this process runs on, queried from Linux: host, available cores and their NUMA nodes, processor,
// memory. If the system does not report a value (containers hide files), its field stays empty or 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace bert_hpc::app {

struct Machine {
  std::string host;
  std::string processor;         ///< model name
  std::string instruction_sets;  ///< the relevant ones, e.g. "AVX2, AVX-512, AVX-512 BF16"
  std::vector<int> cores;        ///< logical cores of this process's affinity, ascending
  std::vector<int> numa_nodes;   ///< of those cores, ascending
};

Machine inspect_machine();

struct ProcessMemory {
  std::int64_t resident = 0, peak_resident = 0;  ///< bytes; 0: unknown
};

ProcessMemory process_memory();

// Pure functions.

/// "0-3,8" to numbers and back. Reading ignores invalid parts.
std::vector<int> parse_core_list(const std::string& text);
std::string format_core_list(const std::vector<int>& cores);

/// NUMA nodes that hold one of the cores, from a folder like /sys/devices/system/node.
std::vector<int> numa_nodes_of(const std::vector<int>& cores, const std::string& folder);

/// From the texts of /proc/self/status and /proc/self/smaps_rollup: VmRSS and VmHWM, counting only this process's share
/// of memory that ranks share.
ProcessMemory memory_from_status(const std::string& status, const std::string& smaps_rollup);

/// From the text of /proc/cpuinfo: model name, and the instruction sets listed under "flags".
std::string processor_from_cpuinfo(const std::string& cpuinfo);
std::string instruction_sets_from_cpuinfo(const std::string& cpuinfo);

/// Total memory of this host in bytes; 0 if the system does not report it.
std::int64_t host_memory();

}  // namespace bert_hpc::app
