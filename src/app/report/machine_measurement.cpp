#include "app/report/machine_measurement.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>

#include "app/report/compute_rates.hpp"
#include "app/report/describe.hpp"
#include "app/report/link_rates.hpp"
#include "app/run/collective.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/comm/device_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {
namespace {

constexpr double gib = 1024.0 * 1024.0 * 1024.0;

/// Rounds to three significant digits.
void round_off(double& value) {
  if (value <= 0) return;
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  value = std::strtod(text, nullptr);
}

void round_off(std::optional<double>& value) {
  if (value) round_off(*value);
}

void round_off(config::LinkFile& link) {
  round_off(link.gb_per_second);
  round_off(link.latency_us);
  round_off(link.reduce_gb_per_second);
  round_off(link.gather_gb_per_second);
}

void round_off(config::MachineFile& file) {
  for (double* value : {&file.memory_gib, &file.memory_gb_per_second, &file.storage_gb_per_second, &file.core_share}) {
    round_off(*value);
  }
  for (auto* value :
       {&file.activation_gb_per_second, &file.attention_gflops, &file.attention_row_ns, &file.pass_us, &file.step_us}) {
    round_off(*value);
  }
  for (auto& rate : file.gflops) round_off(rate);
  for (auto& rates : file.gemm_gflops) {
    for (double& rate : rates) round_off(rate);
  }
  round_off(file.in_node);
  round_off(file.between_nodes);
}

/// Fixed overhead of a step: reductions of the loss, the norm and the ranks' agreements.
double step_overhead(comm::Communicator& world) {
  std::vector<double> values(16, 0.0);
  return shared_seconds(world, 0.2, [&] {
    return seconds_of([&] {
      for (int i = 0; i < 3; ++i) world.all_reduce(values, comm::Reduction::sum);
    });
  });
}

/// Share of its threads' cores that a rank of the first node has to itself.
double core_share(comm::Communicator& world, const NodeLayout& layout, const Machine& machine, int threads) {
  std::set<int> cores;
  double wanted = 0;
  const auto ranks = comm::all_gather_objects(world, std::pair(threads, machine.cores));
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (layout.node[rank] != layout.node[0]) continue;
    wanted += ranks[rank].first;
    cores.insert(ranks[rank].second.begin(), ranks[rank].second.end());
  }
  return cores.empty() ? 1.0 : std::min(1.0, static_cast<double>(cores.size()) / wanted);
}

std::string header(const NodeLayout& layout, const Machine& machine, const core::DeviceChoice& device, int threads,
                   int ranks) {
  std::string text = "# " + io::utc_now() + ", " + machine.host + ": " + machine.processor;
  if (!machine.instruction_sets.empty()) text += " (" + machine.instruction_sets + ')';
  if (!device.identity.empty()) text += ", " + device.name;
  text += "\n# " + core::counted(ranks, "rank") + " on " + core::counted(layout.nodes, "node") + ", " +
          core::counted(threads, "thread") + " each; bert_hpc " + std::string(core::version()) + " (" +
          std::string(core::revision()) + ")\n# " + core::listed(library_versions(), "and", false) + '\n';
  text +=
      "# Rates are those of one rank while all ranks of the node work. [gemm] and *_gflops: the GEMMs of an encoder\n"
      "# block, forward and backward, by hidden size. memory_gb_per_second: the optimizer's update. attention, "
      "activation\n"
      "# and pass_us: what remains of whole sublayers. Links: floats between neighbours, reduce-scatter and "
      "all-gather.\n"
      "# memory_gib: the node's memory divided by its ranks. Storage: this file's folder, all ranks together.\n";
  if (layout.max_ranks < 2) text += "# NOT MEASURED, a guess: [link_in_node], as no node has two ranks.\n";
  if (layout.nodes < 2) text += "# NOT MEASURED, a guess: [link_between_nodes], as there is one node.\n";
  return text;
}

config::MachineFile measured_file(const std::string& path, comm::Communicator& world, comm::Communicator& floats,
                                  const NodeLayout& layout, int threads, const core::DeviceChoice& device) {
  const Machine machine = inspect_machine();
  config::MachineFile file;
  const bool gpu = !device.identity.empty();
  file.name = gpu ? device.name : machine.processor.empty() ? machine.host : machine.processor;
  file.device = gpu ? "gpu" : "cpu";
  file.core_share = gpu ? 1.0 : core_share(world, layout, machine, threads);
  file.measured = true;
  file.node_ranks = layout.max_ranks;
  file.memory_gib = static_cast<double>(gpu ? device.memory : host_memory() / std::max(1, layout.max_ranks)) / gib;
  // Defaults if nothing can be measured: memory of a node, a 100 Gbit/s adapter shared by its ranks.
  file.in_node = {.gb_per_second = 5, .latency_us = 1};
  file.between_nodes = {.gb_per_second = 12.5 / std::max(1, layout.max_ranks), .latency_us = 3};
  measure_compute(world, file);
  measure_links(floats, layout, file);
  file.step_us = step_overhead(world) * 1e6;
  file.storage_gb_per_second = storage_rate(world, path) / 1e9;
  return file;
}

}  // namespace

std::string machine_file_text(config::MachineFile file, const std::string& header) {
  round_off(file);
  return std::string(machine_file_mark) + '\n' + header + '\n' + config::machine_text(file);
}

void require_machine_file(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(path, ignored))) {
    const fs::path folder = fs::path(path).parent_path();
    if (folder.empty() || fs::is_directory(folder, ignored)) return;
    throw core::Error(core::ExitCode::files, "'" + core::printable(path) + "' cannot be written: there is no folder '" +
                                                 core::printable(folder.string()) + "'.");
  }
  std::string line;
  if (fs::is_regular_file(path, ignored)) {
    std::ifstream file(path);
    std::getline(file, line);
  }
  if (line == machine_file_mark) return;
  throw core::Error(core::ExitCode::files, "'" + core::printable(path) +
                                               "' exists and was not written by --measure-machine: choose another "
                                               "name, or remove it.");
}

void measure_machine(const std::string& path, comm::Communicator& world, int threads, const core::DeviceChoice& device,
                     core::Log& log) {
  collectively(world, [&] {
    if (world.rank() == 0) require_machine_file(path);
  });
  std::unique_ptr<comm::Communicator> devices;
  if (!device.identity.empty()) devices = comm::make_device_communicator(world, false);
  const NodeLayout layout = node_layout(world.all_gather(inspect_machine().host));
  log.info("measuring this machine with " + core::counted(world.size(), "rank") + " on " +
           core::counted(layout.nodes, "node") + ": less than a minute");
  const config::MachineFile file = measured_file(path, world, devices ? *devices : world, layout, threads, device);
  collectively(world, [&] {
    if (world.rank() != 0) return;
    const std::string text = header(layout, inspect_machine(), device, threads, world.size());
    io::write_text_file(path, machine_file_text(file, text));
  });
  log.info("written to " + path + ": name it in [run] machine, and bert_hpc INPUT.toml --validate estimates times");
}

}  // namespace bert_hpc::app
