#include "app/plan/simulation.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "app/engine/data_sets.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/padding.hpp"
#include "app/engine/precision.hpp"
#include "app/engine/step_loss.hpp"
#include "app/plan/batch_shapes.hpp"
#include "app/plan/calibrated_simulation.hpp"
#include "app/plan/run_estimate.hpp"
#include "app/plan/simulated_trace.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/config/machine_description.hpp"
#include "bert_hpc/config/walltime.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/sample_units.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::app {
namespace {

double as_double(std::int64_t value) {
  return static_cast<double>(value);
}

std::int64_t rounded(double value) {
  return static_cast<std::int64_t>(std::llround(value));
}

/// The micro-batches of the replica with the most tokens, for which the other replicas wait.
std::vector<layers::BatchShape> slowest_replica(const core::BatchPlan& plan, const config::Config& input) {
  std::vector<layers::BatchShape> slowest;
  double most = -1;
  for (int replica = 0; replica < plan.replicas(); ++replica) {
    const auto r = static_cast<std::size_t>(replica);
    std::vector<layers::BatchShape> shapes;
    double tokens = 0;
    for (int m = plan.replica_begin[r]; m < plan.replica_begin[r + 1]; ++m) {
      shapes.push_back(shape_of(plan.micro_batch(m), input));
      tokens += shapes.back().tokens;
    }
    if (tokens <= most) continue;
    most = tokens;
    slowest = std::move(shapes);
  }
  return slowest;
}

core::MachineDescription unknown_machine() {
  core::MachineDescription machine;
  constexpr double endless = 1e30;
  machine.node_ranks = 1;
  machine.flops = 1;
  machine.memory_bandwidth = machine.in_node.bandwidth = machine.between_nodes.bandwidth = endless;
  return machine;
}

std::string percent(double share) {
  return core::format_number(std::round(1000 * share) / 10, 3) + '%';
}

std::string line(const std::string& name, const std::string& text) {
  return "  " + name + std::string(name.size() < 12 ? 12 - name.size() : 1, ' ') + text + '\n';
}

std::string sent_text(const char* what, double bytes, bool leaves_node, bool machine_is_known) {
  if (bytes <= 0) return "";
  return std::string(", ") + what + ' ' + core::format_bytes(rounded(bytes)) +
         (machine_is_known && leaves_node ? " between nodes" : "");
}

std::string stage_text(const train::StageLoad& load, bool machine_is_known) {
  const std::string sent = sent_text("pipeline", load.sent_pipeline, load.pipeline_leaves_node, machine_is_known) +
                           sent_text("data", load.sent_data, load.data_leaves_node, machine_is_known) +
                           sent_text("tensor", load.sent_tensor, load.tensor_leaves_node, machine_is_known);
  const std::string trained =
      load.trained < load.parameters ? " (" + core::with_commas(rounded(load.trained)) + " trained)" : "";
  return core::with_commas(rounded(load.parameters)) + " parameters" + trained + ", " +
         core::format_bytes(rounded(load.state_bytes)) + " for parameters, gradients and optimizer states, " +
         core::format_bytes(rounded(load.activation_bytes)) + " of saved activations" +
         (sent.empty() ? "" : "; sends per step: " + sent.substr(2));
}

/// The first size of a run whose batches grow.
std::int64_t first_size(const data::BatchLoaderOptions& batches) {
  return batches.warmup.start > 0 ? batches.warmup.start : batches.plan.global_batch;
}

/// The plan of a run's first step if it has `size` sequences.
core::BatchPlan first_plan(const data::ShardReader& reader, const data::BatchLoaderOptions& batches, int replicas,
                           std::int64_t size) {
  std::optional<data::SampleUnits> units;
  if (batches.lists) units.emplace(reader.groups(), reader.levels(), reader.table().lengths());
  const std::span<const std::int32_t> all = units ? units->tokens() : reader.table().lengths();
  data::BatchSampler sampler(all, {.sampler = batches.sampler, .global_batch = size, .drop_last = batches.drop_last});
  std::vector<std::int64_t> samples;
  std::vector<std::int32_t> lengths;
  sampler.batch(0, samples);
  for (const std::int64_t sample : samples) lengths.push_back(all[static_cast<std::size_t>(sample)]);
  data::BatchPlanOptions options = batches.plan;
  options.replicas = replicas;
  data::SampleUnits* const drawn = units ? &*units : nullptr;
  data::check(options, data::most_rows(options.padding, reader.info().max_length, drawn));
  return data::plan_batch(samples, lengths, options, drawn);
}

train::SimulationInput input_of(const RunContext& context, const SimulatedRun& run, const config::Config& input,
                                const std::optional<core::MachineDescription>& machine, std::int64_t size) {
  std::vector<std::int64_t> balance;
  for (const model::ModelRange& part : run.model.parts) balance.push_back(part.sublayers());
  return simulation_input(input, run.model.config, run.model.objective.head, context.grid, balance,
                          first_plan(run.reader, run.batches, context.grid.data, size), machine);
}

std::optional<core::MachineDescription> machine_of(const config::Config& input) {
  if (!input.run.machine) return std::nullopt;
  return config::described_machine(input);
}

/// Seconds of a step in which the teacher computes; 0 without one.
double teacher_seconds(const SimulatedRun& run, const config::Config& input, const train::SimulationInput& student) {
  if (run.teacher == nullptr) return 0;
  train::SimulationInput teacher = student;
  teacher.model = run.teacher->request.plan;
  teacher.balance = run.teacher->balance;
  core::MachineDescription machine = unknown_machine();
  if (input.run.machine) machine = config::parse_machine(*input.run.machine, input.distill.compute.value());
  teacher.machine = core::at_hidden(machine, static_cast<double>(teacher.model.width(0)));
  return train::forward_seconds(teacher);
}

double step_seconds(const RunContext& context, const SimulatedRun& run, const config::Config& input,
                    std::int64_t size) {
  const train::SimulationInput simulated = input_of(context, run, input, machine_of(input), size);
  return train::simulate_step(simulated).seconds + teacher_seconds(run, input, simulated);
}

/// Seconds of a step of the run's mean size, from those of its full size: times grow evenly with sizes.
double mean_seconds(const RunContext& context, const SimulatedRun& run, double full_seconds) {
  const std::int64_t first = first_size(run.batches), full = run.batches.plan.global_batch;
  if (first == full) return full_seconds;
  const double saved = full_seconds - step_seconds(context, run, context.input, first);
  return full_seconds - saved * (as_double(full) - run.mean_size) / as_double(full - first);
}

std::string run_text(const RunContext& context, const SimulatedRun& run, const train::SimulationInput& simulated,
                     const train::SimulatedStep& step) {
  const config::Config& input = context.input;
  const core::MachineDescription& machine = simulated.machine;
  const auto evaluation = [&](const data::ShardReader* reader) {
    if (reader == nullptr) return 0.0;
    data::BatchLoaderOptions batches = run.batches;
    batches.plan.padding = padding_options(input, run.model.config, *reader);
    const std::int64_t longest = batches.plan.padding.rows(reader->info().max_length);
    const std::int64_t tokens = evaluation_micro_tokens(input, longest, run.usual_micro_tokens);
    const data::BatchPlanOptions window = data::evaluation_options(batches, tokens).plan;
    return train::evaluation_seconds(simulated, shape_of(*reader, input, window), as_double(tokens));
  };
  RunPlan plan;
  plan.steps = run.steps;
  plan.step_seconds = mean_seconds(context, run, step.seconds);
  plan.evaluations = run.evaluations + (run.test == nullptr ? 0 : 1);
  plan.evaluation_seconds = as_double(run.evaluations) * evaluation(run.validation) + evaluation(run.test);
  plan.every_steps = input.checkpoint.every_steps;
  plan.every_minutes = input.checkpoint.every_minutes;
  plan.snapshot_seconds = as_double(run.checkpoint_bytes) / context.ranks() / machine.memory_bandwidth;
  plan.writing_seconds = as_double(run.checkpoint_bytes) / machine.storage_bandwidth;
  if (input.run.max_walltime) plan.max_walltime = config::walltime_seconds(*input.run.max_walltime);
  plan.ranks = context.ranks();
  plan.node_ranks = machine.node_ranks;
  plan.gpu = machine.gpu;
  return run_estimate_text(plan, estimate_run(plan));
}

/// Returns its path.
std::string write_simulation(const std::string& directory, const io::Trace& trace) {
  std::error_code ignored;  // write_trace() reports what is wrong
  std::filesystem::create_directories(directory, ignored);
  std::string path = directory + "/trace_simulated.json";
  io::write_trace(path, trace);
  return path;
}

std::string blocks_text(const train::SimulationInput& simulated, int stage) {
  std::string text;
  std::int64_t first = 0;
  for (std::size_t part = 0; part < simulated.balance.size(); ++part) {
    const std::int64_t count = simulated.balance[part];
    if (static_cast<int>(part) % simulated.grid.pipeline == stage) {
      text += (text.empty() ? "blocks " : ", ") + model::blocks_text(simulated.model, first, first + count);
    }
    first += count;
  }
  return text;
}

}  // namespace

std::string step_duration(double seconds) {
  return seconds < 1 ? core::format_number(seconds * 1e3, 3) + " ms" : core::format_duration(seconds);
}

double simulated_step_seconds(const RunContext& context, const SimulatedRun& run, const config::Config& input) {
  return step_seconds(context, run, input, run.batches.plan.global_batch);
}

train::SimulationInput simulation_input(const config::Config& input, const model::ModelConfig& model,
                                        const model::HeadKind& kind, const comm::GridShape& grid,
                                        const std::vector<std::int64_t>& balance, const core::BatchPlan& plan,
                                        const std::optional<core::MachineDescription>& machine) {
  train::SimulationInput simulated;
  simulated.model = plan_of(input, model, kind, input.trains());
  simulated.grid = grid;
  simulated.kind = schedule_of(input);
  simulated.virtual_stages = static_cast<int>(input.parallel.virtual_stages);
  model::limit_logits(simulated.model, machine ? machine->gpu : core::is_gpu_build());
  // zb_h1 computes weight gradients later, from the gradients of all logits (Stage::allocate_slot).
  if (simulated.kind == train::ScheduleKind::zb_h1 && grid.pipeline > 1) simulated.model.head.reads_all_logits = true;
  simulated.zero = static_cast<int>(input.parallel.zero);
  simulated.state_bytes = ops::bytes_per_parameter(ops::optimizer_kind(input.optimizer.name).states);
  simulated.micro_batches = slowest_replica(plan, input);
  for (const core::PlannedSample& sample : plan.samples) simulated.step_tokens += sample.length;
  simulated.balance = balance;
  simulated.machine =
      core::at_hidden(machine.value_or(unknown_machine()), static_cast<double>(simulated.model.width(0)));
  return simulated;
}

std::string simulation_text(const train::SimulationInput& simulated, const train::SimulatedStep& step,
                            bool machine_is_known) {
  const comm::GridShape& grid = simulated.grid;
  const auto micro_batches = std::ssize(simulated.micro_batches);
  std::string text = "simulated step";
  if (machine_is_known) {
    text += " on " + simulated.machine.name + (simulated.machine.measured ? "" : " (rates not measured)");
  }
  text += '\n';
  if (grid.pipeline > 1) {
    text += line("pipeline", train::schedule_name(simulated.kind) + ", " + core::counted(grid.pipeline, "stage") +
                                 ", " + core::counted(micro_batches, "micro-batch", "micro-batches") +
                                 " per replica: bubble " + percent(step.bubble));
  }
  for (int stage = 0; stage < grid.pipeline; ++stage) {
    const auto s = static_cast<std::size_t>(stage);
    const std::string name = grid.pipeline > 1 ? "stage " + std::to_string(stage) : "each rank";
    text += line(name, (grid.pipeline > 1 ? blocks_text(simulated, stage) + ", " : "") +
                           stage_text(step.loads[s], machine_is_known));
  }
  if (!machine_is_known)
    return text + line("time", "unknown (set [run] machine to a machine file, such as input/machine_h100_node.toml)");
  text +=
      line("time",
           step_duration(step.seconds) + " per step" +
               (simulated.grid.data == 1 ? "" : "; exposed (non-overlapped) communication: " + percent(step.exposed)));
  text += line("speed", core::format_metric(step.tokens_per_second) + " tokens/s");
  return text;
}

void report_simulation(const RunContext& context, const SimulatedRun& run) {
  const config::Config& input = context.input;
  std::string text;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    const std::optional<core::MachineDescription> machine = machine_of(input);
    const bool writes = input.log.trace && machine;
    if (!writes && !context.invocation.validate) return;
    const std::int64_t full = run.batches.plan.global_batch, first = first_size(run.batches);
    const train::SimulationInput simulated = input_of(context, run, input, machine, full);
    train::SimulatedStep step = train::simulate_step(simulated);
    const double teacher = teacher_seconds(run, input, simulated);
    step.seconds += teacher;
    step.tokens_per_second = simulated.step_tokens / step.seconds;
    if (context.invocation.validate) text = simulation_text(simulated, step, machine.has_value());
    if (run.teacher != nullptr && machine) {
      text += line("teacher", step_duration(teacher) + " of a step, before the student's passes");
    }
    if (context.invocation.validate && machine) text += run_text(context, run, simulated, step);
    if (!writes) return;
    io::Trace trace = simulated_trace(simulated, step);
    if (first < full) {
      const train::SimulationInput begin = input_of(context, run, input, machine, first);
      trace = simulated_trace(begin, train::simulate_step(begin));
    }
    text += line("trace", write_simulation(input.run.directory, trace));
  });
  if (context.invocation.validate && !text.empty()) context.log.info(text.substr(0, text.size() - 1));
}

void report_calibrated_simulation(const RunContext& context, const SimulatedRun& run, const io::Trace* measured) {
  std::string text;
  collectively(context.world, [&] {
    if (measured == nullptr) return;
    const CalibratedSimulation own =
        simulate_from_trace(input_of(context, run, context.input, std::nullopt, first_size(run.batches)), *measured);
    text = calibrated_simulation_text(own);
    if (context.input.run.machine) return;
    io::Trace trace = simulated_trace(own.input, own.simulated);
    for (auto& [name, value] : trace.facts) {
      if (name == "machine") value = "measured pass times";
    }
    write_simulation(context.input.run.directory, trace);
  });
  if (!text.empty()) context.log.info(text);
}

}  // namespace bert_hpc::app
