#include "bert_hpc/app/describe.hpp"

#include <algorithm>

#include "bert_hpc/app/banner.hpp"
#include "bert_hpc/app/machine.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/io/metric_names.hpp"
#include "bert_hpc/io/provenance.hpp"

namespace bert_hpc::app {
namespace {

std::string data_text(const DataSets& sets) {
  std::string text;
  const auto add = [&text](const char* name, const std::unique_ptr<data::ShardReader>& reader) {
    if (!reader) return;
    if (!text.empty()) text += "; ";
    text += std::string(name) + " " + core::counted(reader->samples(), "sequence") + ", " +
            core::with_commas(reader->info().tokens) + " tokens, longest " + std::to_string(reader->info().max_length);
  };
  add("train", sets.train);
  add("validation", sets.validation);
  add("test", sets.test);
  return text;
}

std::string model_text(const model::BertConfig& config) {
  return "bert, " + core::counted(config.num_hidden_layers, "layer") + " of " + std::to_string(config.hidden_size) +
         ", " + core::counted(config.num_attention_heads, "head") + ", intermediate " +
         std::to_string(config.intermediate_size) + ", vocabulary " + core::with_commas(config.vocab_size);
}

std::string layout_text(const comm::GridShape& grid) {
  return "data " + std::to_string(grid.data) + " × pipeline " + std::to_string(grid.pipeline) + " × tensor " +
         std::to_string(grid.tensor);
}

}  // namespace

std::vector<std::string> library_versions() {
  std::vector<std::string> versions = {comm::MpiRuntime::description(), core::DeviceRuntime::description()};
  for (const auto& [name, value] : io::collect_provenance()) {
    if (name == "HDF5") versions.push_back(name + " " + value);
  }
  return versions;
}

void describe_run(const RunContext& context, const Assembly& assembly, const DataSets& sets, const MemoryPlan& memory,
                  const std::vector<std::pair<std::string, std::string>>& more) {
  const Machine machine = inspect_machine();
  const RankPlacement mine{machine.host,  context.device.name, context.threads,
                           machine.cores, machine.numa_nodes,  context.device.numa_node};
  BannerFacts facts;
  for (const std::string& text : context.world.all_gather(encode(mine))) {
    facts.ranks.push_back(decode_placement(text));
  }
  if (context.ranks() != context.world.size()) facts.planned_ranks = context.ranks();
  const model::BertConfig& config = assembly.config;
  const core::ParameterStore whole_model(assembly.all_parameters(), core::ParameterStore::Arenas::none);
  facts.version = core::version();
  facts.revision = core::revision();
  facts.libraries = library_versions();
  facts.libraries.push_back("products by " + assembly.products->name());
  facts.libraries.push_back("attention by " + assembly.attention->name());
  facts.processor = machine.processor;
  facts.instruction_sets = machine.instruction_sets;
  facts.input = context.invocation.input_path;
  facts.run = context.input.run.mode + " " + context.input.task.name + " into " + context.input.run.directory;
  facts.layout = layout_text(context.grid);
  facts.model = model_text(config);
  facts.parameters = whole_model.parameters();
  const data::ShardInfo& info = sets.any().info();
  // Of the tokens: masked ones, or one a sequence.
  const double head_rows = context.input.task.mask_probability.value_or(1 / info.mean_length());
  facts.flops_per_token = model::training_flops(config, assembly.traits.kind, 1, info.mean_length(), head_rows);
  facts.memory = memory;
  facts.more.emplace_back("data", data_text(sets));
  facts.more.insert(facts.more.end(), more.begin(), more.end());
  context.log.info(banner(facts));
  for (const std::string& warning : placement_warnings(facts.ranks)) context.log.warning(warning);
  if (!context.invocation.validate || !core::host_sees_device_memory()) return;
  const auto here =
      std::count_if(facts.ranks.begin(), facts.ranks.end(), [&](const auto& r) { return r.host == machine.host; });
  // Of ranks that are planned for elsewhere one at least must have room on a host like this one.
  const int ranks = facts.planned_ranks == 0 ? static_cast<int>(here) : 1;
  const std::string warning = memory_warning(total(memory), ranks, host_memory());
  if (!warning.empty()) context.log.warning(warning);
}

void tell_directory(const RunContext& context, const std::string& why) {
  if (!why.empty()) context.log.info("note: as things are, the run would not begin: " + why);
}

std::string memory_line(const std::vector<io::RankRow>& ranks) {
  const auto excess = [](const io::RankRow& r) { return r.peak_memory - r.start_memory - r.planned_memory; };
  const auto worst =
      std::max_element(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) { return excess(a) < excess(b); });
  if (worst == ranks.end() || worst->peak_memory <= 0 || worst->start_memory <= 0) return {};
  return "memory of a rank: " + core::format_bytes(worst->planned_memory) + " planned, grew by " +
         core::format_bytes(worst->peak_memory - worst->start_memory) + " to " +
         core::format_bytes(worst->peak_memory) + " at most";
}

std::string evaluation_line(const std::string& task, const std::string& split, const io::EvaluationRow& row) {
  const std::string place = row.step > 0 ? " at step " + core::with_commas(row.step) : "";
  std::string text = split + place + ": loss " + core::format_number(row.loss);
  for (const auto& [name, value] : row.metrics) {
    text += ", " + io::metric_label(task, name) + " " + core::format_number(value);
  }
  return text;
}

}  // namespace bert_hpc::app
