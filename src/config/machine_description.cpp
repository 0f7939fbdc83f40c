#include "bert_hpc/config/machine_description.hpp"

#include "bert_hpc/config/toml_reader.hpp"

namespace bert_hpc::config {

core::MachineDescription parse_machine(const std::string& path, const std::string& compute) {
  return parse_machine_text(read_input_text(path), path, compute);
}

core::MachineDescription parse_machine_text(const std::string& text, const std::string& name,
                                            const std::string& compute) {
  constexpr double giga = 1e9, gib = 1024.0 * 1024.0 * 1024.0, micro = 1e-6;
  constexpr const char* precisions[] = {"fp32", "tf32", "bf16", "fp16", "fp8"};
  core::MachineDescription machine;
  TomlReader toml(text, name, {});
  toml.table("machine").key("name", machine.name).required();
  toml.key("measured", machine.measured);

  toml.table("node").key("ranks", machine.node_ranks, between(1, 1 << 20)).required();

  double memory = 0, bandwidth = 0, efficiency = 1;
  toml.table("rank").key("memory_gib", memory, positive()).required();
  toml.key("memory_gb_per_second", bandwidth, positive()).required();
  toml.key("efficiency", efficiency, {.low = 0, .high = 1, .low_open = true});
  double gflops = 0;
  for (const char* precision : precisions) {
    std::optional<double> rate;
    toml.key((std::string(precision) + "_gflops").c_str(), rate, positive());
    if (precision == compute && rate) gflops = *rate;
  }
  if (gflops <= 0) {
    toml.problem("rank." + compute + "_gflops",
                 "[rank] " + compute + "_gflops is not given: the rate for precision.compute = \"" + compute + "\".");
  }

  const auto link = [&](const char* table, core::LinkRates& rates) {
    double gb = 0, latency = 0;
    toml.table(table).key("gb_per_second", gb, positive()).required();
    toml.key("latency_us", latency, non_negative()).required();
    rates = {.bandwidth = gb * giga, .latency = latency * micro};
  };
  link("link_in_node", machine.in_node);
  link("link_between_nodes", machine.between_nodes);
  toml.finish();

  machine.memory = memory * gib;
  machine.memory_bandwidth = bandwidth * giga;
  machine.flops = gflops * giga * efficiency;
  return machine;
}

}  // namespace bert_hpc::config
