#include "app/report/describe.hpp"

#include <algorithm>
#include <cmath>

#include "app/engine/embedding_input.hpp"
#include "app/engine/logit_positions.hpp"
#include "app/report/banner.hpp"
#include "app/report/run_warnings.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/model_costs.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/build_description.hpp"
#include "bert_hpc/ops/layer_norm.hpp"

namespace bert_hpc::app {
namespace {

std::string data_text(const DataSets& sets) {
  std::string text;
  const auto add = [&text](const char* name, const std::unique_ptr<data::ShardReader>& reader) {
    if (!reader) return;
    if (!text.empty()) text += "; ";
    text += std::string(name) + " " + core::counted(reader->samples(), "sequence") + ", " +
            core::with_commas(reader->info().tokens) + (reader->has_embeddings() ? " rows" : " tokens") + ", longest " +
            std::to_string(reader->info().max_length);
  };
  add("train", sets.train);
  add("validation", sets.validation);
  add("test", sets.test);
  return text;
}

/// Which part of the training tokens each entry of data.train has.
std::string mixture_text(const config::Data& data, const data::ShardReader& train) {
  std::string text;
  for (std::size_t i = 0; i < data.train.size(); ++i) {
    const double share = static_cast<double>(train.tokens_of_path(i)) / static_cast<double>(train.info().tokens);
    text += (i > 0 ? ", " : "") + core::format_number(data.repeat[i]) + " × " + data.train[i] + " (" +
            core::format_number(100 * share, 3) + "%)";
  }
  return text;
}

/// What `ranks` ranks on a node take for tokens, and what a rank has read to start; of planned data nothing is known.
std::string data_memory_text(const DataSets& sets, std::int64_t ranks) {
  std::int64_t shared = 0, own = 0, cached = 0, read = 0;
  for (const auto* set : {&sets.train, &sets.validation, &sets.test}) {
    if (!*set) continue;
    const data::ShardReader& reader = **set;
    if (reader.planned()) return {};
    if (!reader.keeps_tokens()) {
      cached += reader.bytes_to_share(static_cast<int>(ranks));
    } else if (reader.bytes_to_share(static_cast<int>(ranks)) > 0) {
      shared += reader.token_bytes();
    } else {
      own += reader.token_bytes() * ranks;
    }
    read += reader.opening_bytes();
  }
  std::string text;
  if (const std::int64_t rows = feature_bytes(sets); rows > 0) {
    const bool shares = core::host_sees_device_memory();
    text += core::format_bytes(rows) +
            (shares ? " of a node for embeddings, read once, " : " of each GPU for embeddings, ");
  }
  if (shared > 0) text += core::format_bytes(shared) + " of a node for tokens, read once, ";
  if (own > 0) text += core::format_bytes(own) + " of a node for tokens that each rank keeps, ";
  if (cached > 0) text += core::format_bytes(cached) + " of a node for a cache of tokens, ";
  return text + core::format_bytes(read) + " read to start";
}

std::string model_text(const model::ModelConfig& config) {
  const std::string layers = config.family + ", " + core::counted(config.num_hidden_layers, "layer") + " of " +
                             std::to_string(config.hidden_size) + ", ";
  const std::string embeddings = "embeddings of " + std::to_string(config.embedding_size);
  std::string inside = embeddings;
  if (model::has_attention(config.family)) {
    inside = core::counted(config.num_attention_heads, "head") + ", intermediate " +
             std::to_string(config.intermediate_size);
    if (config.embedding_size > 0 && config.embedding_size != config.hidden_size) inside += ", " + embeddings;
  }
  if (!config.embedded_by.empty()) return layers + inside + " that are " + core::printable(config.embedded_by);
  return layers + inside + ", vocabulary " + core::with_commas(config.vocab_size);
}

std::string layout_text(const comm::GridShape& grid) {
  return "data " + std::to_string(grid.data) + " × pipeline " + std::to_string(grid.pipeline) + " × tensor " +
         std::to_string(grid.tensor);
}

/// The plan of --validate against the machine that [run] machine describes, else against this node with the ranks that
/// run `here`. A GPU's memory is known from a machine file only.
std::string plan_warning(const RunContext& context, std::int64_t most_bytes, int here) {
  if (context.world.rank() != 0) return {};
  if (context.planned_machine) {
    const core::MachineDescription& machine = *context.planned_machine;
    return memory_warning(most_bytes, 1, static_cast<std::int64_t>(machine.memory), "a rank of " + machine.name);
  }
  if (!core::host_sees_device_memory()) return {};
  // With --ranks the nodes of the run are unknown: one rank at least must fit on a node like this one.
  const bool planned = context.ranks() != context.world.size();
  return memory_warning(most_bytes, planned ? 1 : here, host_memory(), "this node");
}

std::string kernels_text(const ModelInstance& model) {
  std::string text = "matmul: " + model.kernels.products->name() + "; attention: " + model.kernels.attention->name();
  if (!core::is_gpu_build()) return text;
  // The same on every GPU, so that bits do not depend on its number of multiprocessors.
  constexpr std::int64_t many = std::int64_t{1} << 20;
  return text + "; at most " + std::to_string(ops::norm_sum_blocks(many)) +
         " blocks a launch in layer norms' backward passes";
}

/// "answered 186 of 200 questions, 14 not": the counts behind a percentage; "" if they are unknown.
std::string counts_text(const std::string& name, double percent, const std::string& all, const io::EvaluationRow& row) {
  const auto found =
      std::find_if(row.metrics.begin(), row.metrics.end(), [&](const auto& metric) { return metric.first == all; });
  if (found == row.metrics.end() || !std::isfinite(percent)) return {};
  const auto whole = static_cast<std::int64_t>(found->second);
  const std::int64_t part = std::llround(percent / 100 * found->second);
  return name + " " + core::with_commas(part) + " of " + core::with_commas(whole) + " " + all + ", " +
         core::with_commas(whole - part) + " not";
}

}  // namespace

std::vector<std::string> library_versions() {
  std::vector<std::string> versions = {comm::MpiRuntime::description(), core::DeviceRuntime::description()};
  for (const auto& [name, value] : io::collect_provenance()) {
    if (name == "HDF5") versions.push_back(name + " " + value);
  }
  return versions;
}

BannerFacts start_facts(const RunContext& context) {
  const Machine machine = inspect_machine();
  const RankPlacement mine{.host = machine.host,
                           .device = context.device.name,
                           .threads = context.threads,
                           .cores = machine.cores,
                           .numa_nodes = machine.numa_nodes,
                           .device_node = context.device.numa_node,
                           .device_identity = context.device.identity,
                           .visible_devices = context.device.visible};
  const std::string& task = context.input.task.name;
  BannerFacts facts;
  facts.ranks = comm::all_gather_objects(context.world, mine);
  if (context.ranks() != context.world.size()) facts.planned_ranks = context.ranks();
  facts.version = core::version();
  facts.revision = core::revision();
  facts.libraries = library_versions();
  facts.processor = machine.processor;
  facts.instruction_sets = machine.instruction_sets;
  facts.input = context.invocation.input_path;
  facts.run = context.input.run.mode + (task.empty() ? "" : " " + task) + " into " + context.input.run.directory;
  return facts;
}

void describe_run(const RunContext& context, const ModelInstance& model, const DataSets& sets, const MemoryPlan& memory,
                  std::int64_t most_bytes, const std::vector<std::pair<std::string, std::string>>& more) {
  BannerFacts facts = start_facts(context);
  const model::ModelConfig& config = model.config;
  const core::ParameterStore whole_model(model.all_parameters(), core::ParameterStore::Arenas::none);
  facts.kernels = kernels_text(model);
  facts.layout = layout_text(context.grid);
  facts.model = model_text(config);
  facts.parameters = whole_model.parameters();
  if (model.plan.trains) facts.trainable_parameters = whole_model.trainable_parameters();
  const data::ShardInfo& info = sets.any().info();
  const double logit_positions = expected_targets(context.input, 1 / info.mean_length(), 1, 1);  // per token
  facts.flops_per_token = model::training_flops(
      model.plan, {.tokens = 1, .squared_lengths = info.mean_length(), .logit_positions = logit_positions});
  if (!context.input.trains()) {
    constexpr double of_training = 3;
    facts.flops_per_token /= of_training;
    facts.flops_of = "forward";
  }
  facts.memory = memory;
  const std::string host = io::host_name();
  const auto here =
      std::count_if(facts.ranks.begin(), facts.ranks.end(), [&](const auto& r) { return r.host == host; });
  facts.more.emplace_back("data", data_text(sets));
  if (!context.input.data.repeat.empty() && sets.train && !sets.train->planned()) {
    facts.more.emplace_back("mixture", mixture_text(context.input.data, *sets.train));
  }
  if (context.invocation.validate) {
    const std::string text = data_memory_text(sets, here);
    if (!text.empty()) facts.more.emplace_back("data memory", text);
  }
  facts.more.insert(facts.more.end(), more.begin(), more.end());
  context.log.info(banner(facts));
  for (const std::string& warning : placement_warnings(facts.ranks)) context.log.warning(warning);
  const std::string note =
      precision_note(context.input.precision, core::is_gpu_build(), facts.instruction_sets, ops::uses_tile_registers());
  if (!note.empty()) context.log.info(note);
  if (!context.invocation.validate) return;
  const std::string warning = plan_warning(context, std::max(most_bytes, total(memory)), static_cast<int>(here));
  if (!warning.empty()) context.log.warning(warning);
  if (!context.planned_machine) return;
  const std::string of_build = build_note(core::is_gpu_build(), *context.planned_machine);
  if (!of_build.empty()) context.log.info(of_build);
}

void note_directory(core::Log& log, const std::string& why) {
  if (!why.empty()) log.info("note: this run would be refused: " + why);
}

std::string memory_line(const std::vector<io::RankRow>& ranks) {
  const auto excess = [](const io::RankRow& r) { return r.peak_memory - r.start_memory - r.planned_memory; };
  const auto worst =
      std::max_element(ranks.begin(), ranks.end(), [&](const auto& a, const auto& b) { return excess(a) < excess(b); });
  if (worst == ranks.end() || worst->peak_memory <= 0 || worst->start_memory <= 0) return {};
  return "memory per rank: planned " + core::format_bytes(worst->planned_memory) + " plus " +
         core::format_bytes(worst->start_memory) + " for the program itself; measured peak " +
         core::format_bytes(worst->peak_memory);
}

std::string evaluation_line(const std::string& split, const io::EvaluationRow& row, const ModelInstance& model) {
  const tasks::Task& task = *model.objective.task;
  const data::LabelScales& scales = model.output_rules.scales;
  const std::string step = row.step > 0 ? " at step " + core::with_commas(row.step) : "";
  const bool standardized = !scales.empty() && !is_bounded(scales);
  std::string text =
      split + step + ": " + (standardized ? io::standardized_loss : "loss") + ' ' + core::format_number(row.loss);
  for (const auto& [name, value] : row.metrics) {
    const metrics::Metric* const metric = metrics::find_metric(name, task.metrics);
    if (metric != nullptr && !metric->in_log) continue;
    // The log shows one metric for each output.
    if (metric == nullptr && !name.starts_with(task.metrics.front()->metrics.front().name + '_')) continue;
    const std::string counts =
        metric == nullptr || metric->percent_of.empty() ? "" : counts_text(name, value, metric->percent_of, row);
    if (!counts.empty()) {
      text += ", " + counts;
      continue;
    }
    const bool has_label = metric != nullptr && !metric->label.empty();
    text += ", " + (has_label ? metric->label : name) + " " + core::format_number(value);
  }
  return text;
}

}  // namespace bert_hpc::app
