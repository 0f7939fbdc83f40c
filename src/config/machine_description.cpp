#include "bert_hpc/config/machine_description.hpp"

#include <algorithm>
#include <functional>
#include <sstream>

#include "bert_hpc/config/toml_reader.hpp"

namespace bert_hpc::config {
namespace {

constexpr double giga = 1e9, gib = 1024.0 * 1024.0 * 1024.0, micro = 1e-6, nano = 1e-9;

void visit_link(TomlKeys& toml, const char* table, LinkFile& link) {
  toml.table(table).key("gb_per_second", link.gb_per_second, positive()).required();
  toml.key("latency_us", link.latency_us, non_negative()).required();
  toml.key("reduce_gb_per_second", link.reduce_gb_per_second, positive());
  toml.key("gather_gb_per_second", link.gather_gb_per_second, positive());
}

std::string rate_key(std::size_t precision) {
  return std::string(machine_precisions[precision]) + "_gflops";
}

void visit(TomlKeys& toml, MachineFile& file) {
  toml.table("machine").key("name", file.name).required();
  toml.key("measured", file.measured);
  toml.table("node").key("ranks", file.node_ranks, between(1, 1 << 20)).required();

  toml.table("rank").key("device", file.device, one_of({"cpu", "gpu"}));
  toml.key("memory_gib", file.memory_gib, positive()).required();
  toml.key("memory_gb_per_second", file.memory_gb_per_second, positive()).required();
  toml.key("efficiency", file.efficiency, {.low = 0, .high = 1, .low_open = true});
  for (std::size_t p = 0; p < machine_precisions.size(); ++p) toml.key(rate_key(p).c_str(), file.gflops[p], positive());
  toml.key("activation_gb_per_second", file.activation_gb_per_second, positive());
  toml.key("attention_gflops", file.attention_gflops, positive());
  toml.key("attention_row_ns", file.attention_row_ns, non_negative());
  toml.key("pass_us", file.pass_us, non_negative());
  toml.key("step_us", file.step_us, non_negative());
  toml.key("core_share", file.core_share, {.low = 0, .high = 1, .low_open = true});

  toml.table("gemm").key("hidden", file.gemm_hidden, positive());
  for (std::size_t p = 0; p < machine_precisions.size(); ++p) {
    toml.key(rate_key(p).c_str(), file.gemm_gflops[p], positive());
  }
  toml.table("storage").key("gb_per_second", file.storage_gb_per_second, positive());
  visit_link(toml, "link_in_node", file.in_node);
  visit_link(toml, "link_between_nodes", file.between_nodes);
}

void check(TomlReader& toml, const MachineFile& file) {
  const std::vector<double>& sizes = file.gemm_hidden;
  if (std::adjacent_find(sizes.begin(), sizes.end(), std::greater_equal<>()) != sizes.end()) {
    toml.problem("gemm.hidden", "[gemm] hidden must be ascending sizes.");
  }
  for (std::size_t p = 0; p < machine_precisions.size(); ++p) {
    if (file.gemm_gflops[p].empty() || file.gemm_gflops[p].size() == sizes.size()) continue;
    toml.problem("gemm." + rate_key(p), "[gemm] " + rate_key(p) + " needs one rate for each size of [gemm] hidden.");
  }
}

core::LinkRates rates_of(const LinkFile& link) {
  return {.bandwidth = link.gb_per_second * giga,
          .latency = link.latency_us * micro,
          .reduce_bandwidth = link.reduce_gb_per_second.value_or(0) * giga,
          .gather_bandwidth = link.gather_gb_per_second.value_or(0) * giga};
}

core::MachineDescription description_of(const MachineFile& file, std::size_t precision) {
  core::MachineDescription machine;
  machine.name = file.name;
  machine.measured = file.measured;
  machine.gpu = file.device == "gpu";
  machine.node_ranks = file.node_ranks;
  machine.memory = file.memory_gib * gib;
  machine.memory_bandwidth = file.memory_gb_per_second * giga;
  machine.flops = file.gflops[precision].value_or(0) * giga * file.efficiency;
  const std::vector<double>& rates = file.gemm_gflops[precision];
  for (std::size_t i = 0; i < std::min(rates.size(), file.gemm_hidden.size()); ++i) {
    machine.gemm.push_back({file.gemm_hidden[i], rates[i] * giga * file.efficiency});
  }
  machine.in_node = rates_of(file.in_node);
  machine.between_nodes = rates_of(file.between_nodes);
  machine.activation_bandwidth = file.activation_gb_per_second.value_or(0) * giga;
  machine.attention_flops = file.attention_gflops.value_or(0) * giga;
  machine.attention_row = file.attention_row_ns.value_or(0) * nano;
  machine.pass_overhead = file.pass_us.value_or(0) * micro;
  machine.step_overhead = file.step_us.value_or(0) * micro;
  machine.core_share = file.core_share;
  machine.storage_bandwidth = file.storage_gb_per_second * giga;
  return machine;
}

}  // namespace

core::MachineDescription parse_machine(const std::string& path, const std::string& compute) {
  return parse_machine_text(read_input_text(path, "the description of a machine"), path, compute);
}

core::MachineDescription described_machine(const Config& config) {
  core::MachineDescription machine = parse_machine(config.run.machine.value(), config.precision.compute);
  machine.node_ranks = config.run.node_ranks.value_or(machine.node_ranks);
  return machine;
}

MachineFile read_machine_text(const std::string& text, const std::string& name) {
  MachineFile file;
  TomlReader toml(text, name, {});
  visit(toml, file);
  check(toml, file);
  toml.finish();
  return file;
}

core::MachineDescription parse_machine_text(const std::string& text, const std::string& name,
                                            const std::string& compute) {
  MachineFile file;
  TomlReader toml(text, name, {});
  visit(toml, file);
  check(toml, file);
  const auto found = std::find(machine_precisions.begin(), machine_precisions.end(), compute);
  const auto precision = static_cast<std::size_t>(found - machine_precisions.begin());
  if (found == machine_precisions.end() || !file.gflops[precision]) {
    toml.problem(
        "rank." + compute + "_gflops",
        "[rank] " + compute + "_gflops is missing: precision.compute = \"" + compute +
            "\" needs this rate. Measure it on that machine with bert_hpc --measure-machine FILE, or add the key.");
  }
  toml.finish();
  return description_of(file, precision);
}

std::string machine_text(const MachineFile& file) {
  MachineFile copy = file;
  TomlWriter writer;
  visit(writer, copy);
  // Skip lists without rates.
  std::istringstream lines(writer.text());
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    if (!line.ends_with("= []")) text += line + '\n';
  }
  return text;
}

}  // namespace bert_hpc::config
