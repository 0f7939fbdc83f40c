// Reads and writes the file that [run] machine names: about a dozen numbers that describe a machine, for time estimates
// before a run. Strict like every input file: unknown keys and impossible values are reported together, with line and
// column.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/machine_description.hpp"

namespace bert_hpc::config {

/// Values of precision.compute, in the order of the rates in a MachineFile.
inline constexpr std::array<const char*, 5> machine_precisions = {"fp32", "tf32", "bf16", "fp16", "fp8"};

struct LinkFile {
  double gb_per_second = 0, latency_us = 0;
  std::optional<double> reduce_gb_per_second{}, gather_gb_per_second{};  ///< default: gb_per_second
};

/// A machine description in the units of its file. Keys without a value here are optional in the file.
struct MachineFile {
  std::string name, device = "cpu";
  bool measured = false;
  std::int64_t node_ranks = 1;
  double memory_gib = 0, memory_gb_per_second = 0, efficiency = 1;
  std::array<std::optional<double>, machine_precisions.size()> gflops;
  std::optional<double> activation_gb_per_second, attention_gflops, attention_row_ns, pass_us, step_us;
  std::vector<double> gemm_hidden;                                         ///< hidden sizes, ascending
  std::array<std::vector<double>, machine_precisions.size()> gemm_gflops;  ///< one rate per hidden size, or empty
  double core_share = 1, storage_gb_per_second = 0.5;
  LinkFile in_node, between_nodes;
};

/// Throws Error(input) with every problem; `name` stands for the text in messages.
MachineFile read_machine_text(const std::string& text, const std::string& name);
/// Formats a description; read_machine_text() reads back the same values.
std::string machine_text(const MachineFile& file);

/// `compute` as in precision.compute selects the machine's rate. Throws Error(input) with every problem.
core::MachineDescription parse_machine(const std::string& path, const std::string& compute);
/// The machine that [run] machine describes, with [run] node_ranks if it is given. Throws as parse_machine().
core::MachineDescription described_machine(const Config& config);
/// The same for text already in memory; `name` stands for it in messages.
core::MachineDescription parse_machine_text(const std::string& text, const std::string& name,
                                            const std::string& compute);

}  // namespace bert_hpc::config
