#include "app/engine/planned_data.hpp"

#include <algorithm>
#include <cmath>

#include "app/run/collective.hpp"
#include "app/run/machine.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/sampler.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::int64_t max_sequences = std::int64_t{1} << 27;  // 4 bytes each
constexpr double part_for_evaluation = 1.0 / 8;                // of the training tokens: 0.8, 0.1, 0.1

std::string range_text(const data::ShardReader& reader) {
  const std::span<const std::int32_t> lengths = reader.table().lengths();
  const auto [least, most] = std::minmax_element(lengths.begin(), lengths.end());
  return *least == *most
             ? "all of " + core::counted(*most, "token")
             : "lengths uniform from " + std::to_string(*least) + " to " + std::to_string(*most) + " tokens";
}

std::unique_ptr<data::ShardReader> planned_reader(const data::ShardInfo& info, std::int64_t tokens, double mean_length,
                                                  std::int64_t most) {
  return std::make_unique<data::ShardReader>(
      data::PlannedData{info, planned_lengths(std::max<std::int64_t>(1, tokens), mean_length, most).lengths()});
}

}  // namespace

std::vector<std::int32_t> PlannedLengths::lengths() const {
  const std::int64_t kinds = longest - shortest + 1;
  std::vector<std::int32_t> result(static_cast<std::size_t>(sequences));
  if (sequences < kinds) {  // spread over the range
    for (std::int64_t i = 0; i < sequences; ++i) {
      const std::int64_t index = (2 * i + 1) * kinds / (2 * sequences);
      result[static_cast<std::size_t>(i)] = shortest + static_cast<std::int32_t>(index);
    }
    return result;
  }
  // Any run of `kinds` neighbours has every length once, so that the mean is right for a part of them too.
  const data::Permutation drawn(kinds, 1);
  std::vector<std::int32_t> every(static_cast<std::size_t>(kinds));
  for (std::int64_t i = 0; i < kinds; ++i) {
    every[static_cast<std::size_t>(i)] = shortest + static_cast<std::int32_t>(drawn(i));
  }
  for (std::size_t begin = 0; begin < result.size(); begin += every.size()) {
    std::copy_n(every.begin(), std::min(every.size(), result.size() - begin),
                result.begin() + static_cast<std::ptrdiff_t>(begin));
  }
  return result;
}

PlannedLengths planned_lengths(std::int64_t tokens, double mean_length, std::int64_t most) {
  if (mean_length > static_cast<double>(most)) {
    throw core::Error(core::ExitCode::input, "--mean-length " + core::format_number(mean_length, 6) +
                                                 " is longer than the model takes: [model] max_position_embeddings = " +
                                                 std::to_string(most) + '.');
  }
  const double sequences = std::max(1.0, std::round(static_cast<double>(tokens) / mean_length));
  if (sequences > static_cast<double>(max_sequences)) {
    throw core::Error(
        core::ExitCode::input,
        "--tokens and --mean-length make " + core::format_metric(sequences) + " sequences; a plan holds at most " +
            core::with_commas(max_sequences) +
            ". Plan a part of the data, with [schedule] steps instead of epochs: the time per step is the "
            "same.");
  }
  const double reach = std::min(mean_length - 1, static_cast<double>(most) - mean_length);
  return {.sequences = static_cast<std::int64_t>(sequences),
          .shortest = static_cast<std::int32_t>(std::llround(mean_length - reach)),
          .longest = static_cast<std::int32_t>(std::llround(mean_length + reach))};
}

void plan_data(DataSets& sets, const config::Config& input, const model::ModelConfig& stated, std::int64_t tokens,
               double mean_length) {
  data::ShardInfo info;
  info.task = objectives::of(input).task;
  info.vocabulary_size = stated.vocab_size;
  if (info.task->has_label_names()) info.label_names = stated.label_names;
  const std::int64_t most = stated.max_position_embeddings;
  sets.train = planned_reader(info, tokens, mean_length, most);
  const auto part = static_cast<std::int64_t>(part_for_evaluation * static_cast<double>(tokens));
  if (!input.data.validation.empty()) sets.validation = planned_reader(info, part, mean_length, most);
  if (!input.data.test.empty()) sets.test = planned_reader(info, part, mean_length, most);
}

void open_or_plan_data(DataSets& sets, const RunContext& context, const model::ModelConfig& stated) {
  const Invocation& invocation = context.invocation;
  if (invocation.planned_tokens > 0) {
    collectively(context.world, [&] {
      plan_data(sets, context.input, stated, invocation.planned_tokens, invocation.planned_mean_length);
    });
  } else {
    // Nodes may differ, and all ranks decide alike whether tokens fit.
    const auto memory = static_cast<std::int64_t>(context.world.minimum(static_cast<double>(host_memory())));
    const comm::NodePosition position = comm::position_on_node();
    TokenBudget budget =
        token_budget(context.input.data, memory, static_cast<int>(context.world.maximum(position.ranks)));
    budget.is_first_of_node = position.rank == 0;
    open_data(sets, context.input, stated, context.grid.data, budget, context.world, !invocation.validate);
  }
  if (!invocation.validate) return;
  for (const std::string& warning : extend_to_replicas(sets, context.grid.data, context.input.batch.global)) {
    context.log.warning(warning);
  }
}

std::string planned_data_text(const DataSets& sets) {
  const data::ShardReader& train = *sets.train;
  std::string text = "without shards: " + core::counted(train.samples(), "sequence") + ", " + range_text(train) +
                     "; vocabulary " + core::with_commas(train.info().vocabulary_size);
  if (!train.info().label_names.empty()) {
    text += ", " + core::counted(std::ssize(train.info().label_names), "class", "classes");
  }
  if (sets.validation || sets.test) text += "; validation and test: an eighth of the training tokens each";
  return text;
}

std::vector<std::string> extend_to_replicas(DataSets& sets, int replicas, std::int64_t global) {
  std::vector<std::string> warnings;
  const auto extend = [&](const char* key, std::unique_ptr<data::ShardReader>& reader, data::SourceRows* rows) {
    if (!reader || reader->samples() >= replicas) return;
    const std::span<const std::int32_t> lengths = reader->table().lengths();
    data::PlannedData longer{reader->info(), {}};
    const std::int64_t wanted = std::max<std::int64_t>(replicas, global);
    while (std::ssize(longer.lengths) < wanted) {
      longer.lengths.insert(longer.lengths.end(), lengths.begin(), lengths.end());
    }
    warnings.push_back(std::string(key) + " has " + core::counted(reader->samples(), "sequence") + ", fewer than the " +
                       core::with_commas(replicas) +
                       " data-parallel replicas: a run needs more data or fewer ranks. The plan repeats them " +
                       core::with_commas(std::ssize(longer.lengths) / reader->samples()) + " times.");
    reader = std::make_unique<data::ShardReader>(longer);
    if (rows != nullptr) *rows = {};
  };
  extend("data.train", sets.train, nullptr);
  extend("data.validation", sets.validation, &sets.validation_rows);
  extend("data.test", sets.test, &sets.test_rows);
  return warnings;
}

}  // namespace bert_hpc::app
