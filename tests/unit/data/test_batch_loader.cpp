// The loader against a plain reconstruction from the shard's content, over layouts, orders and tasks.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <thread>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/data/shard_writer.hpp"
#include "support/counted_heap.hpp"
#include "unit/data/shard_fixture.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using data::BatchLoader;
using data::BatchLoaderOptions;
using data::LoadedMicroBatch;
using data::LoadedStep;
using data::Order;
using data::ShardReader;
using test::ShardContent;

namespace {

struct Data {
  test::ScratchDirectory directory;
  ShardContent content;
  data::ShardReaderOptions reader;

  Data(const tasks::Task* task, std::int64_t sequences, std::int64_t longest = 20)
      : Data(test::make_content(task, sequences, 7, longest, true)) {}
  explicit Data(ShardContent made) : content(std::move(made)) {
    test::write_shard(directory / "a.h5", content);
    reader.paths = {directory / "a.h5"};
    reader.limits.task = content.task;
  }
};

/// The content of one sequence of a delivered micro-batch, independent of its position.
struct Row {
  std::vector<std::int32_t> ids, types, masked, labels;
  std::int32_t label = 0;
  float value = 0;
  bool operator==(const Row&) const = default;
};

template <class T>
std::vector<T> copy(const T* begin, std::int64_t from, std::int64_t to) {
  return std::vector<T>(begin + from, begin + to);
}

/// The masked tokens of sequence s and its class, if the head reads its first token too.
void collect_parts(const core::Targets& targets, std::int64_t s, Row& row) {
  const core::TargetPart &masked = targets.masked, &first = targets.first;
  const std::int32_t* const classes = targets.get<core::ClassTargets>().data;
  REQUIRE(first.index[s] == targets.rows.offsets[s]);
  REQUIRE(targets.rows.position[first.index[s]] == 0);
  REQUIRE((first.rows.offsets[s] == s && first.rows.sequence[s] == s && first.rows.position[s] == 0));
  std::int32_t next = first.index[s] + 1;
  for (std::int32_t m = masked.rows.offsets[s]; m < masked.rows.offsets[s + 1]; ++m) {
    REQUIRE(masked.index[m] == next++);
    REQUIRE(masked.rows.sequence[m] == s);
    REQUIRE(masked.rows.position[m] == targets.rows.position[masked.index[m]]);
    row.masked.push_back(masked.rows.position[m]);
    row.labels.push_back(classes[m]);
  }
  REQUIRE(next == targets.rows.offsets[s + 1]);
  row.label = classes[masked.rows.count + s];
}

/// Divides a micro-batch and checks that its arrays agree with each other.
void collect(const LoadedMicroBatch& loaded, const tasks::Task& task, std::map<std::int64_t, Row>& rows) {
  const bool predicts = task.predicts_tokens();
  const core::MicroBatch& b = loaded.batch;
  const core::Targets& targets = b.targets;
  REQUIRE(b.tokens.offsets[0] == 0);
  REQUIRE(b.tokens.offsets[b.sequences] == b.tokens.count);
  std::int64_t longest = 0;
  for (std::int64_t s = 0; s < b.sequences; ++s) {
    const std::int32_t begin = b.tokens.offsets[s], end = b.tokens.offsets[s + 1];
    longest = std::max<std::int64_t>(longest, end - begin);
    for (std::int32_t t = begin; t < end; ++t) {
      REQUIRE(b.tokens.sequence[t] == s);
      REQUIRE(b.tokens.position[t] == t - begin);
    }
    const std::int32_t real = b.lengths != nullptr ? begin + b.lengths[s] : end;
    REQUIRE(real > begin);
    for (std::int32_t t = real; t < end; ++t) REQUIRE((b.input_ids[t] == 0 && b.token_type_ids[t] == 0));
    Row row{copy(b.input_ids, begin, real), copy(b.token_type_ids, begin, real), {}, {}, 0, 0};
    for (std::int32_t r = targets.rows.offsets[s]; r < targets.rows.offsets[s + 1]; ++r) {
      REQUIRE(targets.rows.sequence[r] == s);
      REQUIRE(targets.index[r] == begin + targets.rows.position[r]);
      REQUIRE(targets.index[r] < real);
      if (!predicts || targets.has_parts()) continue;
      row.masked.push_back(targets.rows.position[r]);
      row.labels.push_back(targets.get<core::ClassTargets>().data[r]);
    }
    if (targets.has_parts()) collect_parts(targets, s, row);
    if (!predicts) {
      REQUIRE(targets.rows.offsets[s] == s);
      REQUIRE(targets.rows.offsets[s + 1] == s + 1);
      REQUIRE(targets.rows.position[s] == 0);
      if (targets.get<core::ClassTargets>().data) row.label = targets.get<core::ClassTargets>().data[s];
      if (targets.get<core::ValueTargets>().data) row.value = targets.get<core::ValueTargets>().data[s];
    }
    REQUIRE(rows.emplace(b.sample[s], row).second);  // every sample once
  }
  CHECK(b.max_length == longest);
  CHECK(loaded.target_count == (targets.has_parts() ? targets.masked.rows.count : targets.rows.count));
  // Ids ascending and distinct; their segments list every row once, ascending, under the right id.
  std::vector<bool> seen(static_cast<std::size_t>(b.tokens.count), false);
  for (std::int64_t u = 0; u < b.sorted_ids.unique; ++u) {
    if (u > 0) REQUIRE(b.sorted_ids.ids[u - 1] < b.sorted_ids.ids[u]);
    REQUIRE(b.sorted_ids.segments[u] < b.sorted_ids.segments[u + 1]);
    for (std::int32_t i = b.sorted_ids.segments[u]; i < b.sorted_ids.segments[u + 1]; ++i) {
      const std::int32_t t = b.sorted_ids.order[i];
      if (i > b.sorted_ids.segments[u]) REQUIRE(b.sorted_ids.order[i - 1] < t);
      REQUIRE(b.input_ids[t] == b.sorted_ids.ids[u]);
      REQUIRE(!seen[static_cast<std::size_t>(t)]);
      seen[static_cast<std::size_t>(t)] = true;
    }
  }
  CHECK(b.sorted_ids.segments[b.sorted_ids.unique] == b.tokens.count);
  CHECK(std::find(seen.begin(), seen.end(), false) == seen.end());
}

void check_row(const ShardContent& content, std::int64_t sample, const Row& row) {
  const auto s = static_cast<std::size_t>(sample);
  std::vector<std::int32_t> ids = row.ids;
  if (content.task == tasks::find("causal_lm")) {
    REQUIRE(row.labels == std::vector<std::int32_t>(ids.begin() + 1, ids.end()));
    std::vector<std::int32_t> all(row.labels.size());
    std::iota(all.begin(), all.end(), 0);
    REQUIRE(row.masked == all);
  }
  for (std::size_t m = 0; content.task->masks_tokens() && m < row.masked.size(); ++m)
    ids[static_cast<std::size_t>(row.masked[m])] = row.labels[m];
  REQUIRE(ids == copy(content.input_ids.data(), content.offsets[s], content.offsets[s + 1]));
  const auto types = copy(content.token_type_ids.data(), content.offsets[s], content.offsets[s + 1]);
  REQUIRE(std::equal(types.begin(), types.end(), row.types.begin(), row.types.end()));
  if (content.task->labels == tasks::Labels::classes) REQUIRE(row.label == content.classes[s]);
  if (content.task == tasks::find("regression")) REQUIRE(row.value == content.values[s]);
}

/// The samples of each step of a run as all replicas of a layout together deliver them.
std::vector<std::map<std::int64_t, Row>> deliver(const Data& data, BatchLoaderOptions options) {
  std::vector<std::map<std::int64_t, Row>> steps;
  for (int replica = 0; replica < options.plan.replicas; ++replica) {
    ShardReader reader(data.reader);
    options.replica = replica;
    BatchLoader loader(reader, options);
    steps.resize(static_cast<std::size_t>(loader.total_steps() - options.first_step));
    for (auto& step : steps) {
      const LoadedStep& loaded = loader.next();
      CHECK(loaded.epoch == loaded.step / loader.schedule().steps_per_epoch());
      REQUIRE(!loaded.micro_batches.empty());
      std::int64_t targets = 0, sequences = 0, tokens = 0;
      for (const LoadedMicroBatch& micro_batch : loaded.micro_batches) {
        collect(micro_batch, *options.task, step);
        targets += micro_batch.target_count;
        sequences += micro_batch.batch.sequences;
        tokens += micro_batch.batch.tokens.count;
        CHECK(micro_batch.batch.targets.rows.count <= loader.max_targets());
      }
      CHECK(targets == loaded.target_count);
      CHECK(sequences == loaded.sequences);
      CHECK(tokens == loaded.tokens);
      CHECK(tokens <= loader.bounds().replica_tokens);
    }
    CHECK_FALSE(loader.has_next());
    CHECK_THROWS_AS(loader.next(), core::Error);
  }
  return steps;
}

}  // namespace

TEST_CASE("whole words need the tokenizer of the shards") {
  const Data data(tasks::find("masked_lm"), 20);
  ShardReader reader(data.reader);
  BatchLoaderOptions options;
  options.task = tasks::find("masked_lm");
  options.plan = {.global_batch = 4, .hidden = 32};
  options.epochs = 1;
  options.mask_whole_words = true;
  CHECK_THROWS_WITH(BatchLoader(reader, options),
                    ContainsSubstring(reader.files().front() + ": task.mask_whole_words needs the tokenizer"));
}

TEST_CASE("padding follows the tokens of each sequence and changes nothing else of a step") {
  using data::Padding;
  for (const char* name : {"classification", "masked_lm", "masked_lm_pairs", "causal_lm"}) {
    const tasks::Task* const task = tasks::find(name);
    const Data data(task, 61);
    const std::int64_t longest = data.content.max_length;
    BatchLoaderOptions options;
    options.plan = {.global_batch = 16, .hidden = 32};
    options.task = task;
    options.epochs = 2;
    const auto without = deliver(data, options);
    for (const int replicas : {1, 2}) {
      for (const Padding kind : {Padding::longest, Padding::max}) {
        for (const bool sorts : {false, true}) {
          options.plan.replicas = replicas;
          options.plan.micro_tokens = 5 * longest;
          options.plan.padding = {.kind = kind, .length = static_cast<std::int32_t>(longest + 3), .sorts = sorts};
          CHECK(deliver(data, options) == without);
        }
      }
    }
    ShardReader reader(data.reader);
    options.plan = {.global_batch = 16, .hidden = 32, .micro_sequences = 4};
    options.plan.padding = {.kind = Padding::max, .length = static_cast<std::int32_t>(longest + 3)};
    BatchLoader loader(reader, options);
    CHECK(loader.max_length() == longest + 3);
    const LoadedStep& loaded = loader.next();
    CHECK(loaded.tokens == 16 * (longest + 3));
    for (const LoadedMicroBatch& micro_batch : loaded.micro_batches) {
      CHECK(micro_batch.batch.max_length == longest + 3);
      CHECK(micro_batch.batch.tokens.count == 4 * (longest + 3));
    }
  }
}

TEST_CASE("every layout delivers the same samples with the same content in every step") {
  for (const char* name : {"classification", "regression", "masked_lm", "masked_lm_pairs", "causal_lm"}) {
    const tasks::Task* const task = tasks::find(name);
    const Data data(task, 203);
    for (const Order order : {Order::random, Order::file, Order::by_length}) {
      BatchLoaderOptions options{.plan = {.global_batch = 32, .hidden = 64},
                                 .task = task,
                                 .sampler = {.seed = 3, .order = order},
                                 .epochs = 2};
      const auto one = deliver(data, options);
      REQUIRE(one.size() == 14);
      for (std::size_t epoch = 0; epoch < 2; ++epoch) {
        std::set<std::int64_t> samples;
        for (std::size_t s = 0; s < 7; ++s) {
          for (const auto& [sample, row] : one[epoch * 7 + s]) {
            check_row(data.content, sample, row);
            samples.insert(sample);
          }
        }
        CHECK(samples.size() == 203);
      }
      options.plan.replicas = 4;
      CHECK(deliver(data, options) == one);
      options.plan.micro_tokens = 40;
      CHECK(deliver(data, options) == one);
      options.plan = {.global_batch = 32, .hidden = 64, .replicas = 2, .reproducible = true, .chunks = 8};
      CHECK(deliver(data, options) == one);
      // Resumed at step 5.
      options.first_step = 5;
      const auto rest = deliver(data, options);
      CHECK(std::equal(rest.begin(), rest.end(), one.begin() + 5, one.end()));
    }
  }
}

TEST_CASE("the targets of a whole step of next tokens are known to each replica") {
  const Data data(tasks::find("causal_lm"), 40);
  BatchLoaderOptions options;
  options.plan = {.global_batch = 8, .hidden = 64, .replicas = 2};
  options.task = tasks::find("causal_lm");
  options.epochs = 1;
  std::vector<std::int64_t> known, sums(5, 0);
  for (options.replica = 0; options.replica < 2; ++options.replica) {
    ShardReader reader(data.reader);
    BatchLoader loader(reader, options);
    for (std::int64_t& sum : sums) {
      const LoadedStep& loaded = loader.next();
      known.push_back(loaded.global_target_count);
      sum += loaded.target_count;
    }
  }
  std::vector<std::int64_t> twice = sums;
  twice.insert(twice.end(), sums.begin(), sums.end());
  CHECK(known == twice);
}

TEST_CASE("a regression's batches hold standardized labels, in training and evaluation") {
  const Data data(tasks::find("regression"), 40);
  const data::LabelScale scale{.mean = 4.25, .deviation = 0.75};
  const BatchLoaderOptions training{.plan = {.global_batch = 8, .hidden = 64},
                                    .task = tasks::find("regression"),
                                    .sampler = {.seed = 3},
                                    .epochs = 1,
                                    .label_scales = {scale}};
  for (const BatchLoaderOptions& options : {training, data::evaluation_options(training, 100, 16)}) {
    for (const auto& step : deliver(data, options)) {
      for (const auto& [sample, row] : step) {
        CHECK(row.value == scale.standardized(data.content.values[static_cast<std::size_t>(sample)]));
      }
    }
  }
}

TEST_CASE("batches of several label columns hold standardized labels, and count the known ones") {
  const Data data(test::with_value_columns(test::make_content(tasks::find("regression"), 40, 7)));
  const auto& labels = data.content.values;
  REQUIRE(labels.size() == 3 * 40);
  const auto is_known = [](float value) { return !std::isnan(value); };
  REQUIRE(std::count_if(labels.begin(), labels.end(), is_known) < 3 * 40);
  const data::LabelScales scales = {{.mean = 4.25, .deviation = 0.75}, {}, {.mean = -1, .deviation = 3}};
  BatchLoaderOptions options{.plan = {.global_batch = 8, .hidden = 64, .replicas = 2, .micro_tokens = 100},
                             .task = tasks::find("regression"),
                             .sampler = {.seed = 3},
                             .epochs = 1,
                             .label_scales = scales};
  std::vector<std::int64_t> global, sums(5, 0);
  for (options.replica = 0; options.replica < 2; ++options.replica) {
    ShardReader reader(data.reader);
    BatchLoader loader(reader, options);
    for (std::int64_t& sum : sums) {
      const LoadedStep& loaded = loader.next();
      if (options.replica == 0) global.push_back(loaded.global_target_count);
      for (const LoadedMicroBatch& micro : loaded.micro_batches) {
        const auto& targets = micro.on_host.targets.get<core::ValueTargets>();
        std::int64_t known = 0;
        for (std::int64_t s = 0; s < micro.on_host.sequences; ++s) {
          for (std::int64_t c = 0; c < 3; ++c) {
            const float label = labels[static_cast<std::size_t>(micro.on_host.sample[s] * 3 + c)];
            const float target = targets.data[s * 3 + c];
            known += is_known(label);
            CHECK(is_known(target) == is_known(label));
            if (is_known(label)) CHECK(target == scales[static_cast<std::size_t>(c)].standardized(label));
          }
        }
        CHECK(micro.target_count == known);
        sum += known;
      }
    }
  }
  CHECK(sums == global);
}

TEST_CASE("batches of label sets hold 1 for each name in a sequence's set") {
  tasks::Task sets = *tasks::find("classification");
  sets.labels = tasks::Labels::sets;
  constexpr std::int64_t names = 5;
  data::PlannedData planned{{}, std::vector<std::int32_t>(23, 7)};
  planned.info.task = &sets;
  planned.info.vocabulary_size = 100;
  planned.info.label_names.resize(names);
  ShardReader reader(planned);
  BatchLoader loader(reader, {.plan = {.global_batch = 8, .hidden = 64, .micro_tokens = 21},
                              .task = &sets,
                              .sampler = {.seed = 3},
                              .epochs = 1});
  std::set<std::int64_t> seen;
  while (loader.has_next()) {
    for (const LoadedMicroBatch& micro : loader.next().micro_batches) {
      const core::Targets& targets = micro.on_host.targets;
      REQUIRE(targets.get<core::ValueTargets>().columns == names);
      for (std::int64_t s = 0; s < micro.on_host.sequences; ++s) {
        const std::int64_t sample = micro.on_host.sample[s];
        seen.insert(sample);
        for (std::int64_t c = 0; c < names; ++c) {
          CHECK(targets.get<core::ValueTargets>().data[s * names + c] == (c == sample % names ? 1.0f : 0.0f));
        }
      }
    }
  }
  CHECK(seen.size() == 23);
}

TEST_CASE("the head reads the first token of each word, or all of its tokens") {
  const test::ScratchDirectory directory;
  data::ShardInfo info;
  info.task = tasks::find("token_classification");
  info.vocabulary_hash = "cafe";
  info.vocabulary_size = 10;
  info.label_names = {"B-X", "I-X", "O"};
  info.tokenizer = R"({"cls_id": 2, "sep_id": 3, "mask_id": 4, "pad_id": 0})";
  {
    data::ShardWriter writer(directory / "a.h5", info, false);
    const std::vector<std::int32_t> ids = {2, 5, 6, 7, 3}, words = {1, 3, 3, 4}, classes = {0, 2}, one = {2, 2},
                                    other = {1};
    writer.add(ids, {}, {.words = classes}, 0, {.words = words});
    writer.add(ids, {}, {}, 1);                                // a window of which no word is
    writer.add(ids, {}, {.words = other}, 2, {.words = one});  // token 2 stands for the word
    writer.finish();
  }
  data::ShardReaderOptions options;
  options.paths = {directory / "a.h5"};
  options.limits.task = info.task;
  for (const bool all_pieces : {false, true}) {
    ShardReader reader(options);
    BatchLoader loader(reader, {.plan = {.global_batch = 3, .hidden = 64, .micro_tokens = 100},
                                .task = info.task,
                                .sampler = {.order = data::Order::file},
                                .epochs = 1,
                                .all_pieces = all_pieces});
    const data::LoadedStep& step = loader.next();
    const core::MicroBatch& batch = step.micro_batches.at(0).on_host;
    std::map<std::int64_t, std::vector<std::pair<std::int32_t, std::int32_t>>> found;  // positions and classes
    for (std::int64_t row = 0; row < batch.targets.rows.count; ++row) {
      const std::int32_t s = batch.targets.rows.sequence[row], position = batch.targets.rows.position[row];
      CHECK(batch.targets.index[row] == batch.tokens.offsets[s] + position);
      CHECK(row >= batch.targets.rows.offsets[s]);
      CHECK(row < batch.targets.rows.offsets[s + 1]);
      found[batch.sample[s]].emplace_back(position, batch.targets.get<core::ClassTargets>().data[row]);
    }
    using Rows = std::vector<std::pair<std::int32_t, std::int32_t>>;
    CHECK(found[0] == (all_pieces ? Rows{{1, 0}, {2, 1}, {3, 2}} : Rows{{1, 0}, {3, 2}}));
    CHECK(found[2] == Rows{{2, 1}});
    CHECK(found.size() == 2);
    CHECK(step.global_target_count == (all_pieces ? 4 : 3));
    CHECK(step.target_count == step.global_target_count);
  }
}

TEST_CASE("evaluations mask the share of tokens that training masks, or their own") {
  BatchLoaderOptions training;
  training.mask_probability = 0.3;
  CHECK(data::evaluation_options(training, 50, 16).mask_probability == 0.3);
  training.evaluation_mask_probability = 0.15;
  CHECK(data::evaluation_options(training, 50, 16).mask_probability == 0.15);
}

TEST_CASE("evaluation delivers every sample once in any layout; restart() begins again") {
  const Data data(tasks::find("masked_lm"), 301);
  BatchLoaderOptions training{.plan = {.global_batch = 32, .hidden = 64, .reproducible = true, .chunks = 8},
                              .task = tasks::find("masked_lm"),
                              .sampler = {.seed = 3},
                              .steps = 100,
                              .first_step = 50};
  std::map<std::int64_t, Row> first;
  for (const int replicas : {1, 2, 4}) {
    training.plan.replicas = replicas;
    std::map<std::int64_t, Row> all;
    for (const auto& step : deliver(data, data::evaluation_options(training, 50, 16))) {
      for (const auto& [sample, row] : step) CHECK(all.emplace(sample, row).second);
    }
    CHECK(all.size() == 301);
    if (replicas == 1) first = all;
    CHECK(all == first);
  }
  training.plan.replicas = 1;
  training.sampler.seed = 4;  // runs of several seeds are judged by the same masks
  ShardReader reader(data.reader);
  BatchLoader loader(reader, data::evaluation_options(training, 50, 16));
  for (int pass = 0; pass < 3; ++pass) {
    std::map<std::int64_t, Row> all;
    // The second pass is given up half way.
    while (loader.has_next() && !(pass == 1 && all.size() > 100)) {
      for (const LoadedMicroBatch& micro_batch : loader.next().micro_batches)
        collect(micro_batch, *tasks::find("masked_lm"), all);
    }
    if (pass != 1) CHECK(all == first);
    loader.restart(0);
  }
}

TEST_CASE("nothing is allocated while steps are prepared and delivered") {
  for (const char* name : {"classification", "masked_lm", "masked_lm_pairs", "causal_lm"}) {
    const tasks::Task* const task = tasks::find(name);
    const Data data(task, 2000, 100);
    for (const Order order : {Order::random, Order::by_length}) {
      for (const bool reproducible : {false, true}) {
        ShardReader reader(data.reader);
        BatchLoaderOptions options{.plan = {.global_batch = 32, .hidden = 64, .replicas = 2},
                                   .task = task,
                                   .sampler = {.order = order},
                                   .epochs = 2};
        options.plan.reproducible = reproducible;
        options.plan.chunks = reproducible ? 8 : 0;
        options.plan.micro_tokens = reproducible ? 0 : 300;
        BatchLoader loader(reader, options);
        std::int64_t tokens = loader.next().tokens;  // the thread has begun
        const std::int64_t before = test::allocations_so_far();
        while (loader.has_next()) tokens += loader.next().tokens;
        CHECK(test::allocations_so_far() == before);
        CHECK(tokens > 0);
      }
    }
  }
}

TEST_CASE("a delivered step stays as it is while the next one is prepared") {
  const Data data(tasks::find("classification"), 64);
  ShardReader reader(data.reader);
  BatchLoader loader(reader, {.plan = {.global_batch = 8, .hidden = 8}, .sampler = {.seed = 1}, .epochs = 5});
  while (loader.has_next()) {
    const core::MicroBatch& batch = loader.next().micro_batches.front().batch;
    const auto before = copy(batch.input_ids, 0, batch.tokens.count);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(copy(batch.input_ids, 0, batch.tokens.count) == before);
  }
}

TEST_CASE("the caller gets an error about bad data in a prepared step, after the good steps") {
  Data data(tasks::find("classification"), 64);
  data.content.input_ids[static_cast<std::size_t>(data.content.offsets[40]) + 1] = 5000;
  test::write_shard(data.directory / "a.h5", data.content);
  data.reader.memory_limit = data.reader.read_at_once = 0;
  data.reader.cache_unit = 32;
  std::mutex mutex;
  data.reader.hdf5_mutex = &mutex;
  ShardReader reader(data.reader);
  BatchLoader loader(reader,
                     {.plan = {.global_batch = 8, .hidden = 8}, .sampler = {.order = Order::file}, .epochs = 1});
  for (int step = 0; step < 4; ++step) CHECK_NOTHROW(loader.next());
  for (int again = 0; again < 2; ++again) {
    try {
      loader.next();
      loader.next();
      FAIL("accepted");
    } catch (const core::Error& error) {
      CHECK(error.code() == core::ExitCode::data);
      CHECK_THAT(error.what(), ContainsSubstring("sequence 40"));
    }
  }
}

TEST_CASE("too few samples, and batches that cannot be cut, are refused at once") {
  const Data data(tasks::find("classification"), 3);
  ShardReader reader(data.reader);
  const auto code = [&](const data::BatchPlanOptions& plan, bool drop_last) {
    BatchLoaderOptions options{.plan = plan, .sampler = {}, .drop_last = drop_last, .epochs = 1};
    try {
      BatchLoader loader(reader, options);
    } catch (const core::Error& error) {
      return error.code();
    }
    return core::ExitCode::success;
  };
  CHECK(code({.global_batch = 8, .hidden = 8, .replicas = 4}, false) == core::ExitCode::data);
  CHECK(code({.global_batch = 8, .hidden = 8, .micro_tokens = 2}, false) == core::ExitCode::input);
  CHECK(code({.global_batch = 8, .hidden = 8}, true) == core::ExitCode::input);
  CHECK(code({.global_batch = 8, .hidden = 8, .replicas = 2}, false) == core::ExitCode::success);
}
