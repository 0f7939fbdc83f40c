#include "app/plan/pipeline_setup.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "app/engine/data_sets.hpp"
#include "app/engine/logit_positions.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/padding.hpp"
#include "app/engine/precision.hpp"
#include "app/engine/step_loss.hpp"
#include "app/plan/layer_profiler.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/config/machine_description.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/distinct_sublayers.hpp"
#include "bert_hpc/train/pipeline_plan.hpp"

namespace bert_hpc::app {
namespace {

/// The machine if none is described: five operations in the time of a byte, so that reading a block's weights takes as
/// long as some 20 tokens do, as was measured on processors; and messages by way of a node's memory. Only the
/// proportions matter.
core::MachineDescription usual_machine() {
  core::MachineDescription machine;
  machine.flops = 1e11;
  machine.memory_bandwidth = 2e10;
  machine.in_node = machine.between_nodes = {.bandwidth = 5e9, .latency = 5e-6};
  return machine;
}

std::string milliseconds(double seconds) {
  return core::format_number(seconds * 1e3, 3);
}

std::string piece_text(const train::PieceSeconds& piece, double tokens) {
  return milliseconds(piece.forward.of(tokens)) + " + " +
         milliseconds(piece.backward_input.of(tokens) + piece.backward_weight.of(tokens));
}

/// Measured passes are those of a training of everything: layers below all trained ones have no backward pass.
void drop_untrained(const model::ModelPlan& plan, train::ModelSeconds& seconds) {
  const auto drop = [](const model::LayerTraining& training, train::PieceSeconds& piece) {
    if (!training.backward) piece = {.forward = piece.forward, .backward_input = {}, .backward_weight = {}};
  };
  drop(plan.input_training(), seconds.embeddings);
  for (std::int64_t i = 0; i < plan.sublayer_count(); ++i) {
    drop(i + 1 < plan.sublayer_count() ? plan.sublayer_training(i) : plan.head_training(),
         seconds.sublayers[static_cast<std::size_t>(i)]);
  }
}

/// The mean over stages of each part of the model that profile_layers() measures.
std::string measured_text(const model::ModelPlan& plan, const std::vector<train::ModelSeconds>& seconds,
                          double tokens) {
  const auto mean = [&](const auto& piece_of) {
    train::PieceSeconds sum;
    for (const train::ModelSeconds& of : seconds) {
      const train::PieceSeconds& piece = piece_of(of);
      for (const auto pass : {&train::PieceSeconds::forward, &train::PieceSeconds::backward_input,
                              &train::PieceSeconds::backward_weight}) {
        (sum.*pass).fixed += (piece.*pass).of(tokens) / static_cast<double>(seconds.size());
      }
    }
    return sum;
  };
  std::string text = "ms forward + backward: embeddings " +
                     piece_text(mean([](const train::ModelSeconds& of) -> auto& { return of.embeddings; }), tokens);
  for (const model::DistinctSublayer& distinct : model::distinct_sublayers(plan)) {
    const auto example = static_cast<std::size_t>(distinct.sublayers.front());
    text +=
        ", " + distinct.name + ' ' +
        piece_text(mean([example](const train::ModelSeconds& of) -> auto& { return of.sublayers[example]; }), tokens);
  }
  double least = 1e300, most = 0;
  for (const train::ModelSeconds& of : seconds) {
    const double all = of.of(tokens).of(0, plan.sublayer_count());
    least = std::min(least, all);
    most = std::max(most, all);
  }
  const bool uneven = least > 0 && most > 1.05 * least;
  return text +
         (uneven ? "; the slowest stage takes " + core::format_number(most / least, 3) + " times as long as the fastest"
                 : "");
}

bool leaves_micro_batches_open(const config::Config& input) {
  return !input.batch.has_memory() && !input.batch.micro_tokens && !input.batch.micro && !input.batch.micro_batches &&
         !input.run.reproducible && input.batch.chunks == 0;
}

/// As nearly as can be said before any plan.
int stated_micro_batches(const config::Config& input, double sequences, double tokens, std::int64_t usual) {
  const config::Batch& batch = input.batch;
  double count = 1;
  if (input.run.reproducible || batch.chunks > 0) {
    count = static_cast<double>(batch.chunks) * sequences / static_cast<double>(batch.global);
  }
  if (!input.run.reproducible) {
    if (batch.micro_batches) count = static_cast<double>(*batch.micro_batches);
    if (batch.micro) count = sequences / static_cast<double>(*batch.micro);
    if (batch.has_memory()) count = tokens / static_cast<double>(usual);
    if (batch.micro_tokens) count = tokens / static_cast<double>(*batch.micro_tokens);
  }
  return static_cast<int>(std::ceil(std::clamp(count, 1.0, 4096.0)));
}

core::MachineDescription machine_of(const config::Config& input, const model::ModelConfig& model) {
  if (!input.run.machine) return usual_machine();
  return core::at_hidden(config::described_machine(input), static_cast<double>(model.hidden_size));
}

/// Rows that the head reads, of all computed tokens.
double head_share(const config::Config& input, double mean_length, double mean_rows) {
  const double rows = std::max(1.0, mean_rows);
  return expected_targets(input, 1 / rows, mean_length / rows, 1);
}

train::ModelSeconds counted_seconds(const config::Config& input, const model::ModelConfig& config,
                                    const model::HeadKind& kind, bool trains, double mean_length, double mean_rows,
                                    int tensor) {
  return train::modelled_seconds(plan_of(input, config, kind, trains), mean_rows,
                                 head_share(input, mean_length, mean_rows), tensor, machine_of(input, config));
}

/// But for times and numbers of micro-batches.
train::PipelineQuestion question_of(const RunContext& context, const model::ModelConfig& config,
                                    const model::ModelPlan& plan, double mean_length, double mean_rows,
                                    double mean_sequences) {
  const config::Config& input = context.input;
  const core::MachineDescription machine = machine_of(input, config);
  const bool leaves_node = context.ranks() > machine.node_ranks && input.run.machine;
  const core::LinkRates& link = leaves_node ? machine.between_nodes : machine.in_node;
  const double sequences = mean_sequences * static_cast<double>(input.batch.global) / context.grid.data;
  train::PipelineQuestion question;
  question.kind = schedule_of(input);
  question.stages = context.grid.pipeline;
  question.virtual_stages = static_cast<int>(input.parallel.virtual_stages);
  question.selects_from = plan.selects_from;
  question.tokens = sequences * mean_rows;
  question.balance = model::in_sublayers(input.parallel.balance, plan.sublayers_of_block());
  question.head_share = head_share(input, mean_length, mean_rows);
  question.message_per_token = static_cast<double>(plan.most_columns() * core::bytes_of(storage_type(input))) /
                               context.grid.tensor / link.bandwidth;
  question.latency = link.latency;
  return question;
}

}  // namespace

std::vector<std::int64_t> balance_by_cost(const config::Config& input, const model::ModelConfig& config,
                                          const model::HeadKind& kind, bool trains, int pipeline, double mean_length,
                                          double mean_rows) {
  const std::int64_t of_block = plan_of(input, config, kind, trains).sublayers_of_block();
  const std::vector<std::int64_t> given = model::in_sublayers(input.parallel.balance, of_block);
  const model::ModelCosts costs =
      counted_seconds(input, config, kind, trains, mean_length, mean_rows, 1).of(least_micro_tokens);
  std::vector<std::int64_t> balance;
  for (const model::ModelRange& part :
       model::partition(pipeline * static_cast<int>(input.parallel.virtual_stages), given, costs)) {
    balance.push_back(part.sublayers());
  }
  return balance;
}

std::vector<int> micro_batch_candidates(int stages, std::int64_t sequences, double tokens, double most_tokens) {
  std::set<int> numbers;
  const auto most = static_cast<int>(std::clamp<std::int64_t>(sequences, 1, 1 << 20));
  for (const int times : {1, 2, 3, 4, 6, 8, 12, 16}) {
    const int number = std::min(times * stages, most);
    if (tokens <= most_tokens * number) numbers.insert(number);
  }
  if (numbers.empty()) {
    const int rounds = static_cast<int>(std::ceil(tokens / most_tokens / stages));
    numbers.insert(std::min(rounds * stages, most));
  }
  return {numbers.begin(), numbers.end()};
}

PipelineSetup set_up_pipeline(const RunContext& context, const model::ModelConfig& config, const model::HeadKind& kind,
                              data::ShardReader& reader, const comm::ProcessGroups* groups, std::int64_t usual) {
  const config::Config& input = context.input;
  const comm::GridShape& grid = context.grid;
  const double mean_length = reader.info().mean_length();
  const bool measured = input.parallel.balance.empty() && input.parallel.balance_by == "measured";
  PipelineSetup setup;
  train::PipelineQuestion question;
  model::ModelPlan model_plan;
  DrawnUnit unit;
  double rows = 0;
  collectively(context.world, [&] {
    unit.padding = padding_options(input, config, reader);
    rows = mean_rows(input, unit.padding, reader, grid.data, usual);
    setup.balance = balance_by_cost(input, config, kind, true, grid.pipeline, mean_length, rows);
    model_plan = plan_of(input, config, kind, true);
    if (grid.pipeline == 1) return;
    unit = drawn_unit(input, config, reader);
    question = question_of(context, config, model_plan, mean_length, rows, unit.mean_sequences);
  });
  if (grid.pipeline == 1) return setup;

  const std::int64_t longest = unit.most_tokens, sequences = input.batch.global / grid.data;
  const bool open = leaves_micro_batches_open(input);
  question.micro_batches = {stated_micro_batches(input, static_cast<double>(sequences), question.tokens, usual)};
  if (open) {
    question.micro_batches = micro_batch_candidates(grid.pipeline, sequences, question.tokens,
                                                    static_cast<double>(std::max(usual, longest)));
  }
  // The number by counted work, so that it is the same in every run: measured times of short passes and long ones do
  // not suffer alike from what else a machine does. They decide the cut, for passes of this size.
  question.seconds.assign(static_cast<std::size_t>(grid.pipeline),
                          counted_seconds(input, config, kind, true, mean_length, rows, grid.tensor));
  train::PipelinePlan plan = train::plan_pipeline(question);
  if (open) setup.micro_batches = plan.micro_batches;
  const double tokens = question.tokens / plan.micro_batches;
  const bool measures = measured && groups != nullptr;
  if (measures) {
    const MeasuredModel model{.kind = kind,
                              .outputs = std::max<std::int64_t>(1, config.num_labels()),
                              .kernels = input.run.kernels,
                              .attention = input.model.attention,
                              .storage = storage_type(input),
                              .products = product_settings(precision_of(input), input.run.reproducible),
                              .sublayers_of_stage = model_plan.sublayer_count() / grid.pipeline,
                              .split_backward = question.kind == train::ScheduleKind::zb_h1};
    const data::BatchLoaderOptions batches =
        training_batches(input, config, unit, groups->coordinates.data, grid, setup.micro_batches, usual);
    question.seconds = profile_layers(*groups, config, model, reader, batches);
    for (train::ModelSeconds& seconds : question.seconds) drop_untrained(model_plan, seconds);
    question.micro_batches = {plan.micro_batches};
    plan = train::plan_pipeline(question);
  }
  setup.balance = plan.balance;
  const std::string origin = measures                         ? "(measured)"
                             : measured                       ? "(from FLOP counts; a run measures)"
                             : input.parallel.balance.empty() ? "(from FLOP counts)"
                                                              : "(from the input)";
  setup.lines.emplace_back("pipeline", train::schedule_name(question.kind) + ", blocks " +
                                           model::balance_text(plan.balance, model_plan.sublayers_of_block()) + ' ' +
                                           origin + ", " +
                                           core::counted(plan.micro_batches, "micro-batch", "micro-batches") +
                                           " of about " + std::to_string(std::llround(tokens)) +
                                           " tokens per replica " + (open ? "(from FLOP counts)" : "(from the input)") +
                                           ": bubble " + core::format_number(100 * plan.bubble, 3) + "% " +
                                           (measures ? "(measured times)" : "(from FLOP counts)"));
  if (measures) setup.lines.emplace_back("", measured_text(model_plan, question.seconds, tokens));
  return setup;
}

}  // namespace bert_hpc::app
