// Reads and writes the file that [run] machine names: a machine in a dozen numbers, for estimates of time before a run.
// As strict as every input file here: unknown keys and impossible values are reported together, with their places.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::config {

/// precision.compute, in the order of rates in a MachineFile.
inline constexpr std::array<const char*, 5> machine_precisions = {"fp32", "tf32", "bf16", "fp16", "fp8"};

struct LinkFile {
  double gb_per_second = 0, latency_us = 0;
  std::optional<double> reduce_gb_per_second{}, gather_gb_per_second{};  ///< default: gb_per_second
};

/// A machine description in the units of its file. Keys without a value here may be left out there.
struct MachineFile {
  std::string name, device = "cpu";
  bool measured = false;
  std::int64_t node_ranks = 1;
  double memory_gib = 0, memory_gb_per_second = 0, efficiency = 1;
  std::array<std::optional<double>, machine_precisions.size()> gflops;
  std::optional<double> activation_gb_per_second, attention_gflops, attention_row_ns, pass_us, step_us;
  std::vector<double> gemm_hidden;                                         ///< hidden sizes, ascending
  std::array<std::vector<double>, machine_precisions.size()> gemm_gflops;  ///< a rate for each, or none
  double core_share = 1, storage_gb_per_second = 0.5;
  LinkFile in_node, between_nodes;
};

/// Throws Error(input) with every problem; `name` is what messages call the text.
MachineFile read_machine_text(const std::string& text, const std::string& name);
/// Reads back the same.
std::string machine_text(const MachineFile& file);

/// `compute` as in precision.compute: which of the machine's rates is meant. Throws Error(input) with every problem.
core::MachineDescription parse_machine(const std::string& path, const std::string& compute);
/// The same from text already read; `name` is what messages call it.
core::MachineDescription parse_machine_text(const std::string& text, const std::string& name,
                                            const std::string& compute);

}  // namespace bert_hpc::config
