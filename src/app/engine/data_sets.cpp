#include "app/engine/data_sets.hpp"

#include <algorithm>
#include <functional>

#include "app/engine/logit_positions.hpp"
#include "app/engine/model_from_config.hpp"
#include "app/engine/padding.hpp"
#include "app/run/collective.hpp"
#include "app/run/reading_ranks.hpp"
#include "bert_hpc/comm/node_pages.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/file_list.hpp"
#include "bert_hpc/data/sample_units.hpp"
#include "bert_hpc/data/shard_tokenizer.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

/// Throws Error(data) where splits of a training share a shard.
void require_disjoint(const DataSets& sets) {
  std::vector<data::ListedFile> listed;
  const auto add = [&](const char* key, const data::ShardReader* reader) {
    if (reader == nullptr) return;
    for (const std::string& file : reader->files()) listed.push_back({key, file});
  };
  add("data.train", sets.train.get());
  add("data.validation", sets.validation.get());
  add("data.test", sets.test.get());
  core::ProblemList problems;
  for (const data::RepeatedFile& file : data::repeated_files(listed)) {
    if (!file.in_one_list()) problems.add(describe(file) + ".");
  }
  if (problems.empty()) return;
  throw core::Error(
      core::ExitCode::data,
      problems.all().front() +
          (problems.all().size() > 1 ? " So are " + std::to_string(problems.all().size() - 1) + " more." : "") +
          " Splits must not share samples: list separate shards (train-*.h5, validation-*.h5, "
          "test-*.h5), or leave the key out. To evaluate a model on its training data, use "
          "run.mode = \"evaluate\".");
}

/// Without a training, samples are read once, window by window: the tokens of one window and of the units at its ends
/// are enough, however many there are.
void keep_one_window(std::int64_t window, int ranks_of_node, data::ShardReaderOptions& options) {
  constexpr std::int64_t ends = 8;  // units: two of each shard that a window touches
  const std::int64_t tokens = window * options.limits.max_length + ends * options.cache_unit;
  const data::TokenLayout largest{.types = true, .wide = true};
  const std::int64_t bytes = largest.token_bytes() * tokens;
  options.cache_bytes = std::min(options.cache_bytes, (bytes + ranks_of_node - 1) / ranks_of_node);
  options.memory_limit = std::min(options.memory_limit, bytes);
}

/// Rows of text whose sequences are windows, if the task predicts for each row. Throws Error(data) as data::SourceRows.
data::SourceRows source_rows(const tasks::Task& task, const data::ShardReader* reader) {
  return task.find_key(tasks::windows_key) != nullptr && reader != nullptr ? data::SourceRows(*reader)
                                                                           : data::SourceRows();
}

/// Collective. Tokens that are not read yet get memory that the ranks of a node share.
void share_tokens(DataSets& sets, int ranks_of_node) {
  for (const auto* set : {&sets.train, &sets.validation, &sets.test}) {
    if (!*set) continue;
    data::ShardReader& reader = **set;
    const std::int64_t bytes = reader.bytes_to_share(ranks_of_node);
    if (bytes == 0) continue;
    const auto pages = std::make_shared<comm::NodePages>(static_cast<std::size_t>(bytes));
    reader.share(pages->memory(), pages->position().ranks, pages->position().rank, pages);
  }
}

}  // namespace

TokenBudget token_budget(const config::Data& data, std::int64_t node_memory, int ranks) {
  constexpr std::int64_t share = 4;  // the rest is the models', and the file system's cache
  TokenBudget budget{.ranks = ranks};
  if (!data.cache.empty()) {
    budget.node = static_cast<std::int64_t>(std::min(data.cache.front(), 1e18));
  } else if (node_memory > 0) {
    budget.node = node_memory / share;
  }
  return budget;
}

void open_data(DataSets& sets, const config::Config& input, const model::ModelConfig& stated, int replicas,
               const TokenBudget& budget, comm::Communicator& world, bool reads) {
  const bool trains = input.trains();
  sets.ranks_of_node = budget.ranks;
  std::int64_t left = budget.node;
  const std::string train_key = "data.train";
  const auto open = [&](const std::string& name, const std::vector<std::string>& paths, bool labels) {
    data::ShardReaderOptions options;
    options.name = name;
    options.paths = paths;
    if (name == train_key) options.repeats.assign(input.data.repeat.begin(), input.data.repeat.end());
    options.limits = shard_limits(input, stated, labels);
    // For predictions, metrics of rows, embeddings, and a teacher's predictions.
    options.source_index = name != train_key || input.embeds() || input.distill.teacher_scores.has_value();
    options.hdf5_mutex = &sets.hdf5;
    options.memory_limit = left;
    options.cache_bytes = left / budget.ranks;
    options.ranks = reading_ranks(world, budget.is_first_of_node);
    const std::int64_t window =
        std::max(data::evaluation_window * replicas, input.embeds() ? most_embedded_at_once : std::int64_t{0});
    if (!trains) keep_one_window(window, budget.ranks, options);
    auto reader = std::make_unique<data::ShardReader>(options);
    left = std::max<std::int64_t>(left - reader->token_bytes() * (reader->keeps_tokens() ? 1 : budget.ranks), 0);
    return reader;
  };
  // Each by itself: a rank that fails alone must not leave the others in the exchange of the next data set.
  const bool labels = input.trains() || input.run.mode == "evaluate";
  if (trains || (input.embeds() && !input.data.train.empty())) {
    collectively(world, [&] { sets.train = open(train_key, input.data.train, labels); });
  }
  if (!input.data.validation.empty() && input.run.mode != "predict") {
    collectively(world, [&] { sets.validation = open("data.validation", input.data.validation, labels); });
  }
  if (!input.data.test.empty()) {
    collectively(world, [&] { sets.test = open("data.test", input.data.test, labels); });
  }
  collectively(world, [&] {
    for (const auto& other : {std::cref(sets.validation), std::cref(sets.test)}) {
      if (other.get()) data::require_alike(sets.any(), *other.get(), labels);
    }
    if (trains) require_disjoint(sets);
    const tasks::Task& task = *objectives::of(input).task;
    sets.validation_rows = source_rows(task, sets.validation.get());
    sets.test_rows = source_rows(task, sets.test.get());
    if (!input.model.pretrained) return;
    for (const data::ShardReader* reader : {sets.train.get(), sets.validation.get(), sets.test.get()}) {
      if (reader != nullptr) require_tokenizer(*reader, *input.model.pretrained);
    }
  });
  if (reads) share_tokens(sets, budget.ranks);
}

void require_tokenizer(const data::ShardReader& reader, const std::string& model_folder) {
  if (reader.has_embeddings()) return;
  const tokenize::TokenizerFolder model = tokenize::read_tokenizer_folder(model_folder);
  const std::string& file = reader.files().front();
  const std::string what = tokenizer_difference(model, reader.info(), file);
  if (!what.empty()) throw core::Error(core::ExitCode::data, file + ": " + what);
}

void start_reading(const DataSets& sets) {
  for (const auto* set : {&sets.train, &sets.validation, &sets.test}) {
    if (*set) (*set)->start_reading();
  }
}

DrawnUnit drawn_unit(const config::Config& input, const model::ModelConfig& model, const data::ShardReader& reader) {
  DrawnUnit unit;
  unit.padding = padding_options(input, model, reader);
  const std::int64_t longest = reader.info().max_length;
  unit.epoch_tokens = static_cast<double>(reader.info().tokens);
  if (!input.trains() || !task_batches(input.task).lists) {
    unit.most_tokens = data::most_rows(unit.padding, longest, nullptr);
    return unit;
  }
  const data::SampleUnits units(reader.groups(), reader.levels(), reader.table().lengths());
  unit.most_tokens = data::most_rows(unit.padding, longest, &units);
  unit.mean_sequences = static_cast<double>(units.samples()) / static_cast<double>(units.count());
  return unit;
}

data::BatchLoaderOptions training_batches(const config::Config& input, const model::ModelConfig& model,
                                          const DrawnUnit& unit, int replica, const comm::GridShape& grid,
                                          std::int64_t micro_batches, std::int64_t usual) {
  data::BatchLoaderOptions options = task_batches(input.task);
  options.plan.global_batch = input.batch.global;
  options.plan.hidden = model.hidden_size;
  options.plan.replicas = grid.data;
  options.plan.reproducible = input.run.reproducible;
  options.plan.chunks = static_cast<int>(input.batch.chunks);
  options.plan.micro_tokens = input.batch.micro_tokens.value_or(0);
  options.plan.micro_sequences = input.batch.micro.value_or(0);
  options.plan.micro_batches = input.batch.micro_batches.value_or(0);
  options.plan.padding = unit.padding;
  const bool stated = input.batch.micro_tokens || input.batch.micro || input.batch.micro_batches;
  if (!stated && !input.run.reproducible && input.batch.chunks == 0) {
    options.plan.micro_batches = micro_batches;
    if (options.plan.micro_batches == 0) options.plan.micro_tokens = std::max(usual, unit.most_tokens);
  }
  options.replica = replica;
  options.task = objectives::of(input).task;
  options.sampler.seed = static_cast<std::uint64_t>(input.run.seed);
  options.sampler.order = input.data.order == "file"        ? data::Order::file
                          : input.data.order == "by_length" ? data::Order::by_length
                                                            : data::Order::random;
  options.drop_last = input.batch.drop_last;
  if (input.batch.warmup_start) {
    options.warmup = {.start = *input.batch.warmup_start,
                      .increment = input.batch.warmup_increment.value_or(*input.batch.warmup_start),
                      .epochs = input.batch.warmup_tokens.value_or(0) / unit.epoch_tokens,
                      .steps = input.batch.warmup_steps.value_or(0)};
  }
  options.epochs =
      input.schedule.tokens ? *input.schedule.tokens / unit.epoch_tokens : input.schedule.epochs.value_or(0);
  options.steps = input.schedule.steps.value_or(0);
  const layers::HeadKind& head = objectives::of(input).head;
  options.last_tokens = model::make_plan(model, head, 1).head.token == layers::SequenceToken::last;
  return options;
}

std::int64_t evaluation_micro_tokens(const config::Config& input, std::int64_t max_length, std::int64_t usual) {
  return std::max(input.batch.micro_tokens.value_or(usual), max_length);
}

layers::BatchBounds model_bounds(const data::BatchLoader& loader) {
  return {.tokens = loader.bounds().micro_tokens,
          .sequences = loader.bounds().micro_sequences,
          .max_length = loader.max_length(),
          .selected = loader.max_targets()};
}

}  // namespace bert_hpc::app
