// Pipelines of all ranks against the whole model on one: losses and gradients must have the same bits for every
// schedule, with micro-batches of different sizes, with one that is empty, and with steps shorter than the planned one.
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/train/pipeline.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <random>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/pre_norm.hpp"
#include "support/unpolled_communicator.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using model::HeadKind;
using train::ScheduleKind;

namespace {

constexpr std::int64_t outputs = 5;
constexpr int max_micro_batches = 7;

using test::world;

model::ModelConfig small_config() {
  model::ModelConfig config;
  config.vocab_size = 23;
  config.hidden_size = 24;
  config.num_hidden_layers = 8;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  config.max_position_embeddings = 12;
  model::encoder_settings(config).hidden_dropout_prob = model::encoder_settings(config).attention_probs_dropout_prob =
      0.2;
  return config;
}

// Micro-batches of one to four sequences; number 2 is empty, of number 1 nothing is masked.
std::unique_ptr<test::HostBatch> make_batch(unsigned number) {
  std::mt19937 random(number);
  std::vector<std::int32_t> lengths, ids, types, classes, masked_rows, masked_labels;
  for (unsigned b = 0; b < (number == 2 ? 0 : 1 + number % 4); ++b) {
    lengths.push_back(static_cast<std::int32_t>(1 + random() % 12));
    classes.push_back(static_cast<std::int32_t>(random() % 5));
    for (std::int32_t t = 0; t < lengths.back(); ++t) {
      if (random() % 4 == 0 && number != 1) {
        masked_rows.push_back(static_cast<std::int32_t>(ids.size()));
        masked_labels.push_back(static_cast<std::int32_t>(random() % 23));
      }
      ids.push_back(static_cast<std::int32_t>(random() % 23));
      types.push_back(t % 2);
    }
  }
  auto batch = std::make_unique<test::HostBatch>(ids, types, lengths);
  batch->set_classes(classes);
  batch->set_masked(masked_rows, masked_labels);
  return batch;
}

struct Case {
  HeadKind head;
  train::PipelineSettings settings;
  bool inside_blocks = false;  // the first cut and the last lie inside blocks
  model::Trains trains{};
  model::Recomputation recomputation{};
  bool pre_norm = false;
  std::int64_t rows_at_once = 0;  // of the head
  bool reads_all_logits = false;
};

model::ModelPlan plan_of(const Case& c) {
  model::ModelPlan plan = model::make_plan(small_config(), c.head, outputs);
  if (c.pre_norm) plan = test::pre_norm(std::move(plan));
  model::set_trains(plan, c.trains);
  plan.recomputation = c.recomputation;
  plan.head.rows_at_once = c.rows_at_once;
  plan.head.reads_all_logits = c.reads_all_logits;
  return plan;
}

// One rank's part of a model with everything that runs it.
class Trainee : public train::PipelineEvents {
 public:
  Trainee(const Case& c, comm::Communicator& group)
      : masked_(c.head.predicts_tokens),
        settings_(c.settings),
        ranges_(parts(c)),
        store_(specs(c), core::ParameterStore::Arenas::with_gradients),
        products_(ops::make_matrix_product(test::independent_products())),
        attention_(ops::make_attention()) {
    model::initialize_parameters(store_, small_config(), 5);
    for (const auto& range : ranges_) stages_.emplace_back(plan_of(c), range, store_);
    const layers::BatchBounds bounds{.tokens = 48, .sequences = 4, .max_length = 12, .selected = 48};
    model::Stage::plan(stages_, workspace_, bounds, train::training_memory(settings_));
    model::Stage::plan(stages_, workspace_, bounds, train::evaluation_memory(settings_));
    workspace_.allocate();
    for (const ops::ProductExtents& e : model::product_extents(stages_, bounds)) products_->reserve(e);
    attention_->reserve(12, 8);
    pipeline_.emplace(settings_, stages_, workspace_, group, timers_);
    losses.resize(max_micro_batches);
    ended_.resize(stages_.size());
  }

  void run(const std::vector<std::unique_ptr<test::HostBatch>>& batches, int count, bool training) {
    core::Dropout key;
    ops::set_dropout_key(key, 3, 17);
    std::vector<layers::StepContext> passes;
    for (int m = 0; m < count; ++m) {
      passes.push_back({batches[static_cast<std::size_t>(m)]->view(masked_), training, key.key0, key.key1});
    }
    passes_ = passes;
    layers::Engine engine{*products_, *attention_};
    if (training) {
      pipeline_->train(engine, passes, {.scale = 0.5f}, *this);
    } else {
      pipeline_->evaluate(engine, passes, true, *this);
    }
  }

  void result(int m, model::Stage& stage, int slot) override {
    const layers::StepContext& context = passes_[static_cast<std::size_t>(m)];
    double& sum = losses[static_cast<std::size_t>(m)];
    sum = 0;
    for (const float loss : test::copy_of(stage.row_losses(slot), context.batch.targets.rows.count)) sum += loss;
  }
  void finished(int virtual_stage, std::int64_t begin) override {
    const std::vector<std::int64_t> begins = stages_[static_cast<std::size_t>(virtual_stage)].finished_begins();
    in_place &= std::binary_search(begins.begin(), begins.end(), begin);
  }
  void end_micro_batch(int virtual_stage) override { ++ended_[static_cast<std::size_t>(virtual_stage)]; }

  /// Those of the encoder's weights become what no step may keep, all others zero, as a step finds them.
  void spoil_gradients() {
    for (std::size_t i = 0; i < store_.slices().size(); ++i) {
      const core::ParameterSlice& slice = store_.slices()[i];
      const bool product = slice.name.starts_with("bert.encoder.") && slice.name.ends_with(".weight") &&
                           slice.name.find("LayerNorm") == std::string::npos;
      ops::fill({store_.gradient(static_cast<int>(i)).data, static_cast<std::size_t>(slice.size)},
                product ? 1e30f : 0.0f);
    }
  }
  int ended() const {
    int sum = 0;
    for (const int count : ended_) sum += count;
    return sum;
  }
  const core::ParameterStore& store() const { return store_; }
  bool holds_head() const { return stages_.back().range().head; }
  train::Pipeline& pipeline() { return *pipeline_; }
  std::int64_t bytes() const { return workspace_.bytes(); }

  std::vector<double> losses;
  bool in_place = true;

 private:
  static std::vector<model::ModelRange> parts(const Case& c) {
    const auto& s = c.settings;
    const int count = s.stages * s.virtual_stages;
    std::vector<std::int64_t> balance;
    if (c.inside_blocks && count > 1) {  // 3 sublayers, …, 1: only the last feed-forward and the head
      balance.assign(static_cast<std::size_t>(count), 1);
      balance.front() = count == 2 ? 15 : 3;
      if (count > 2) balance[1] = 16 - 3 - (count - 2);
    }
    model::ModelCosts costs = model::equal_costs(model::whole(small_config()).sublayers());
    costs.embeddings = 0.4;
    costs.sublayers.back() = 1.6;
    auto all = model::partition(count, balance, costs);
    model::set_sends_gradient(all, plan_of(c));
    std::vector<model::ModelRange> mine;
    for (int v = 0; v < s.virtual_stages; ++v) mine.push_back(all[static_cast<std::size_t>(v * s.stages + s.stage)]);
    if (all.size() == 1) mine[0].separate_decoder = true;
    return mine;
  }
  std::vector<core::ParameterSpec> specs(const Case& c) const {
    std::vector<core::ParameterSpec> all;
    for (const auto& range : ranges_) {
      const auto part = model::model_parameters(plan_of(c), range);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }

  bool masked_;
  train::PipelineSettings settings_;
  std::vector<model::ModelRange> ranges_;
  core::ParameterStore store_;
  std::vector<model::Stage> stages_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  core::Workspace workspace_;
  core::Timers timers_;
  std::optional<train::Pipeline> pipeline_;
  std::span<const layers::StepContext> passes_;
  std::vector<int> ended_;
};

bool everywhere(bool holds) {
  return !world().any(!holds);
}

}  // namespace

TEST_CASE("every schedule gives the bits of the whole model") {
  const auto head = GENERATE(test::classification_head, test::masked_lm_head);
  const auto kind = GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved,
                             ScheduleKind::zb_h1, ScheduleKind::forwards_first);
  const int count = GENERATE(1, 3, max_micro_batches);
  const bool inside_blocks = GENERATE(false, true), pre_norm = GENERATE(false, true);
  const std::int64_t rows_at_once = GENERATE(0, 3);
  if (rows_at_once > 0 && !head.predicts_tokens) return;
  const int stages = world().size();
  INFO((inside_blocks ? "cut inside blocks, " : "")
       << (pre_norm ? "pre-norm, " : "") << train::schedule_name(kind) << ", " << count << " micro-batches, " << stages
       << " stages, " << rows_at_once << " rows of logits at once");
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < max_micro_batches; ++m) batches.push_back(make_batch(m));

  const auto alone = comm::make_self_communicator();
  Trainee whole({.head = head,
                 .settings = {.micro_batches = max_micro_batches},
                 .pre_norm = pre_norm,
                 .rows_at_once = rows_at_once,
                 .reads_all_logits = true},
                *alone);
  const int virtual_stages = kind == ScheduleKind::interleaved && stages > 1 ? 2 : 1;
  Trainee mine({.head = head,
                .settings = {kind, stages, world().rank(), virtual_stages, max_micro_batches},
                .inside_blocks = inside_blocks,
                .pre_norm = pre_norm,
                .rows_at_once = rows_at_once},
               world());
  for (int round = 0; round < 2; ++round) {  // gradients add up
    whole.run(batches, count, true);
    mine.run(batches, count, true);
    mine.run(batches, 2, false);  // an evaluation in between changes nothing
    whole.run(batches, 2, false);
  }
  bool same = true;
  for (std::size_t i = 0; i < mine.store().slices().size(); ++i) {
    const core::ParameterSlice& slice = mine.store().slices()[i];
    same &= test::copy_of(mine.store().gradient(static_cast<int>(i)).data, slice.size) ==
            test::copy_of(whole.store().gradient(whole.store().find(slice.name)).data, slice.size);
  }
  CHECK(everywhere(same));
  CHECK(everywhere(!mine.holds_head() || mine.losses == whole.losses));
  CHECK(everywhere(mine.in_place && mine.ended() == 2 * count * virtual_stages));
}

TEST_CASE("every schedule ends its backward pass where nothing below is trained") {
  const auto head = GENERATE(test::classification_head, test::masked_lm_head);
  const auto kind =
      GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1);
  const int count = GENERATE(1, max_micro_batches), stages = world().size();
  const std::string lowest = GENERATE("bert.encoder.layer.3.output.", "bert.encoder.layer.7.", "bert.pooler.", "bert.");
  INFO(train::schedule_name(kind) << ", " << count << " micro-batches, " << stages << " stages, from " << lowest);
  const model::Trains trains = [&lowest](const std::string& name) {
    // The decoder's bias with its weight: alone, its sums are added in another order.
    if (name.starts_with("bert.embeddings.") || name == "cls.predictions.bias") return lowest == "bert.";
    return name >= lowest || !name.starts_with("bert.encoder.");
  };
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < max_micro_batches; ++m) batches.push_back(make_batch(m));
  const auto alone = comm::make_self_communicator();
  Trainee whole({head, {.micro_batches = max_micro_batches}}, *alone);
  const int virtual_stages = kind == ScheduleKind::interleaved && stages > 1 ? 2 : 1;
  Trainee mine({head, {kind, stages, world().rank(), virtual_stages, max_micro_batches}, true, trains}, world());
  for (int round = 0; round < 2; ++round) {
    whole.run(batches, count, true);
    mine.run(batches, count, true);
  }
  bool same = true;
  for (std::size_t i = 0; i < mine.store().slices().size(); ++i) {
    const core::ParameterSlice& slice = mine.store().slices()[i];
    if (!slice.trainable) continue;
    same &= test::copy_of(mine.store().gradient(static_cast<int>(i)).data, slice.size) ==
            test::copy_of(whole.store().gradient(whole.store().find(slice.name)).data, slice.size);
  }
  CHECK(everywhere(same));
  CHECK(everywhere(!mine.holds_head() || mine.losses == whole.losses));
  CHECK(everywhere(mine.in_place && mine.ended() == 2 * count * virtual_stages));
}

TEST_CASE("recomputation gives the bits of kept activations, in less memory") {
  struct Choice {
    HeadKind head;
    ScheduleKind kind;
    model::Recomputation recomputation;
    bool inside_blocks;
    std::string lowest;
  };
  const std::string all_trained = "bert.", above = "bert.encoder.layer.3.output.";
  using test::classification_head, test::masked_lm_head;
  const auto [head, kind, recomputation, inside_blocks, lowest] = GENERATE_COPY(
      Choice{classification_head, ScheduleKind::one_f_one_b, {.attention = true}, false, all_trained},
      Choice{masked_lm_head, ScheduleKind::gpipe, {.sublayers = 16}, true, all_trained},
      Choice{classification_head, ScheduleKind::interleaved, {.sublayers = 16}, false, all_trained},
      Choice{classification_head, ScheduleKind::one_f_one_b, {.attention = true, .sublayers = 5}, true, all_trained},
      Choice{masked_lm_head, ScheduleKind::one_f_one_b, {.sublayers = 16}, false, above},
      Choice{classification_head, ScheduleKind::gpipe, {.sublayers = 16}, true, above});
  const std::string& from = lowest;
  const model::Trains trains = [&from](const std::string& name) {
    if (name.starts_with("bert.embeddings.") || name == "cls.predictions.bias") return from == "bert.";
    return name >= from || !name.starts_with("bert.encoder.");
  };
  const int stages = world().size(), virtual_stages = kind == ScheduleKind::interleaved && stages > 1 ? 2 : 1;
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < max_micro_batches; ++m) batches.push_back(make_batch(m));
  const train::PipelineSettings settings{kind, stages, world().rank(), virtual_stages, max_micro_batches};
  const bool pre_norm = GENERATE(false, true);
  Trainee kept({head, settings, inside_blocks, trains, {}, pre_norm}, world());
  Trainee mine({head, settings, inside_blocks, trains, recomputation, pre_norm}, world());
  for (const int count : {max_micro_batches, 3}) {
    kept.run(batches, count, true);
    mine.run(batches, count, true);
    mine.run(batches, 2, false);
    kept.run(batches, 2, false);
  }
  bool same = true;
  for (std::size_t i = 0; i < mine.store().slices().size(); ++i) {
    const core::ParameterSlice& slice = mine.store().slices()[i];
    if (!slice.trainable) continue;
    same &= test::copy_of(mine.store().gradient(static_cast<int>(i)).data, slice.size) ==
            test::copy_of(kept.store().gradient(static_cast<int>(i)).data, slice.size);
  }
  CHECK(everywhere(same));
  CHECK(everywhere(!mine.holds_head() || mine.losses == kept.losses));
  const double bytes = world().sum(static_cast<double>(mine.bytes())),
               all = world().sum(static_cast<double>(kept.bytes()));
  INFO(bytes << " of " << all << " bytes");
  if (recomputation.sublayers == 16 && from == all_trained) CHECK(bytes < 0.8 * all);
}

TEST_CASE("the first micro-batch of a step may replace gradients of weights") {
  const auto head = GENERATE(test::classification_head, test::masked_lm_head);
  const auto kind =
      GENERATE(ScheduleKind::gpipe, ScheduleKind::one_f_one_b, ScheduleKind::interleaved, ScheduleKind::zb_h1);
  const int count = GENERATE(1, 4), stages = world().size();
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < max_micro_batches; ++m) batches.push_back(make_batch(m));
  const int virtual_stages = kind == ScheduleKind::interleaved && stages > 1 ? 2 : 1;
  train::PipelineSettings settings{kind, stages, world().rank(), virtual_stages, max_micro_batches};
  Trainee adds({head, settings}, world());
  settings.replaces_first = true;
  Trainee replaces({head, settings}, world());
  adds.run(batches, count, true);
  bool same = true;
  for (int step = 0; step < 2; ++step) {
    replaces.spoil_gradients();
    replaces.run(batches, count, true);
    for (std::size_t i = 0; i < adds.store().slices().size(); ++i) {
      const auto gradients = [&](const Trainee& of) {
        return test::copy_of(of.store().gradient(static_cast<int>(i)).data, of.store().slices()[i].size);
      };
      same &= gradients(adds) == gradients(replaces);
    }
  }
  CHECK(everywhere(same));
}

TEST_CASE("evaluation of any number of micro-batches gives the whole model's losses") {
  const int virtual_stages = world().size() > 1 ? GENERATE(1, 2) : 1;
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < max_micro_batches; ++m) batches.push_back(make_batch(m));
  const auto alone = comm::make_self_communicator();
  Trainee whole({test::masked_lm_head, {.micro_batches = 1}}, *alone);
  const auto kind = virtual_stages > 1 ? ScheduleKind::interleaved : ScheduleKind::gpipe;
  Trainee mine({test::masked_lm_head, {kind, world().size(), world().rank(), virtual_stages, 1}, true}, world());
  for (int count = 1; count <= max_micro_batches; ++count) {
    whole.run(batches, count, false);
    mine.run(batches, count, false);
    CHECK(everywhere(!mine.holds_head() || mine.losses == whole.losses));
  }
}

TEST_CASE("a pipeline does not poll requests that need no progress") {
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < 4; ++m) batches.push_back(make_batch(m));
  test::UnpolledCommunicator group(world());
  Trainee mine({test::classification_head, {ScheduleKind::one_f_one_b, world().size(), world().rank(), 1, 4}}, group);
  mine.run(batches, 4, true);
  CHECK(everywhere(group.polls() == 0));
  CHECK(everywhere(world().size() == 1 || group.waits() > 0));
}

TEST_CASE("a recorded step has every pass once, and waits where messages come in") {
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < 4; ++m) batches.push_back(make_batch(m));
  Trainee mine({test::classification_head, {ScheduleKind::zb_h1, world().size(), world().rank(), 1, 4}}, world());
  std::vector<train::TimedInstruction> steps;
  mine.pipeline().record(&steps);
  mine.run(batches, 4, true);
  std::map<train::Instruction::Kind, int> counts;
  double before = 0;
  bool ordered = true;
  for (const train::TimedInstruction& step : steps) {
    ++counts[step.instruction.kind];
    ordered &= before <= step.begin && step.begin <= step.end;
    before = step.end;
  }
  using Kind = train::Instruction::Kind;
  const bool alone = world().size() == 1, first = world().rank() == 0, last = world().rank() + 1 == world().size();
  CHECK(everywhere(ordered && counts[Kind::forward] == 3));  // one of the four is empty
  CHECK(everywhere(counts[alone ? Kind::backward : Kind::backward_weight] == 3));
  CHECK(everywhere(counts[Kind::receive_forward] == (first ? 0 : 3)));
  CHECK(everywhere(counts[Kind::receive_backward] == (last ? 0 : 3)));
}
