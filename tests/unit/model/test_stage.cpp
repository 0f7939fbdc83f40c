// Stages against the whole model: the same operations in another order of micro-batches must give the same bits, for
// every head, cut between blocks and inside them, with several micro-batches in flight, and with the parts of the
// backward pass together or separately.
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/stage.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <random>

#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "support/deberta_config.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/pre_norm.hpp"

using namespace bert_hpc;
using model::HeadKind;
using model::ModelRange;
using Counts = std::vector<std::int64_t>;

namespace {

constexpr std::int64_t outputs = 5;
constexpr int micro_batches = 3;
constexpr unsigned no_masked_rows = 2;  // the micro-batch of which a masked-LM head reads nothing

void make_small(model::ModelConfig& config) {
  config.vocab_size = 23;
  config.hidden_size = 24;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 3;
  config.intermediate_size = 40;
  config.max_position_embeddings = 12;
}

model::ModelConfig small_config() {
  model::ModelConfig config;
  make_small(config);
  model::encoder_settings(config).hidden_dropout_prob = model::encoder_settings(config).attention_probs_dropout_prob =
      0.2;
  return config;
}

model::ModelConfig small_deberta() {
  model::ModelConfig config = test::deberta_config();
  make_small(config);
  for (const char* const key : {"hidden_dropout_prob", "attention_probs_dropout_prob"}) {
    REQUIRE(model::set_own_number(config, key, 0.2));
  }
  return config;
}

std::unique_ptr<test::HostBatch> make_batch(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::int32_t> lengths, ids, types, classes, masked_rows, masked_labels;
  for (unsigned b = 0; b < 2 + seed % 3; ++b) {
    lengths.push_back(static_cast<std::int32_t>(1 + random() % 12));
    classes.push_back(static_cast<std::int32_t>(random() % 5));
    for (std::int32_t t = 0; t < lengths.back(); ++t) {
      if (random() % 4 == 0 && seed != no_masked_rows) {
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

float largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) largest = std::max(largest, std::abs(a[i] - b[i]));
  return largest;
}

// Stages of a model over one store, as virtual stages of one rank, with what runs them.
class Stages {
 public:
  Stages(HeadKind kind, std::vector<ModelRange> ranges, bool split, const model::Trains& trains = {})
      : Stages(plan_of(kind, trains), std::move(ranges), split) {}
  Stages(const model::ModelPlan& plan, std::vector<ModelRange> ranges, bool split)
      : store_(specs(plan, ranges), core::ParameterStore::Arenas::with_gradients),
        products_(ops::make_matrix_product(test::independent_products())),
        attention_(ops::make_attention()),
        split_(split) {
    model::initialize_parameters(store_, small_config(), 5);
    model::set_sends_gradient(ranges, plan);
    for (const ModelRange& range : ranges) stages_.emplace_back(plan, range, store_);
    const layers::BatchBounds bounds{.tokens = 60, .sequences = 5, .max_length = 12, .selected = 60};
    const std::vector<model::StageMemory> memory(ranges.size(),
                                                 {.slots = micro_batches, .deferred = split ? micro_batches : 0});
    model::Stage::plan(stages_, workspace_, bounds, memory);
    workspace_.allocate();
    for (const ops::ProductExtents& e : model::product_extents(stages_, bounds)) products_->reserve(e);
    attention_->reserve(12, 8, plan.has_relative_positions());
  }

  void forward(const layers::StepContext& context, int slot) {
    layers::Engine engine{*products_, *attention_};
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      stages_[i].open(workspace_, context, slot);
      if (i > 0) copy(stages_[i - 1].output(slot).as<float>(), stages_[i].input(slot).as<float>());
      stages_[i].forward(engine, context, slot);
    }
    stages_.back().loss(context, 0.5f, slot);
  }

  bool computes_loss_in_backward(int slot) const { return stages_.back().computes_loss_in_backward(slot); }
  /// The sum of the row losses, after the backward pass.
  double loss(const layers::StepContext& context, int slot) const {
    double sum = 0;
    for (const float loss : test::copy_of(stages_.back().row_losses(slot), context.batch.targets.rows.count)) {
      sum += loss;
    }
    return sum;
  }

  void backward(const layers::StepContext& context, int slot) {
    layers::Engine engine{*products_, *attention_};
    for (std::size_t i = stages_.size(); i-- > 0;) {
      const bool receives = i + 1 < stages_.size() && stages_[i + 1].sends_gradient();
      CHECK(stages_[i].has_backward() == (receives || i + 1 == stages_.size()));
      if (receives) copy(stages_[i + 1].d_input(slot).as<float>(), stages_[i].d_output(slot).as<float>());
      if (!stages_[i].has_backward()) continue;
      if (split_) {
        stages_[i].backward_input(engine, context, workspace_, slot, slot);
      } else {
        stages_[i].backward(
            engine, context, workspace_, [](std::int64_t) {}, slot);
      }
    }
  }

  void backward_weight(const layers::StepContext& context, int slot) {
    layers::Engine engine{*products_, *attention_};
    for (model::Stage& stage : stages_) {
      if (!stage.has_backward()) continue;
      std::int64_t before = store_.trainable_size();
      const auto finished = [&](std::int64_t begin) {
        CHECK(begin < before);
        before = begin;
      };
      stage.backward_weight(engine, context, finished, slot, slot);
      CHECK(before == stage.arena_begin());
    }
  }

  std::map<std::string, std::vector<float>> gradients() const {
    std::map<std::string, std::vector<float>> result;
    for (const core::ParameterSlice& slice : store_.slices()) {
      if (!slice.trainable) continue;
      result[slice.name] = test::copy_of(store_.gradients().data() + slice.offset, slice.size);
    }
    return result;
  }
  std::int64_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  static model::ModelPlan plan_of(HeadKind kind, const model::Trains& trains) {
    model::ModelPlan plan = model::make_plan(small_config(), kind, outputs);
    model::set_trains(plan, trains);
    return plan;
  }
  static std::vector<core::ParameterSpec> specs(const model::ModelPlan& plan, const std::vector<ModelRange>& ranges) {
    std::vector<core::ParameterSpec> all;
    for (const ModelRange& range : ranges) {
      const auto part = model::model_parameters(plan, range);
      all.insert(all.end(), part.begin(), part.end());
    }
    return all;
  }
  static void copy(core::Tensor<const float> from, core::Tensor<float> to) {
    REQUIRE(from.size() == to.size());
    core::copy_on_device(from.data, to.data, static_cast<std::size_t>(from.size()) * sizeof(float));
  }

  core::ParameterStore store_;
  std::vector<model::Stage> stages_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  core::Workspace workspace_;
  bool split_;
};

}  // namespace

TEST_CASE("stages with several micro-batches in flight have the bits of the whole model") {
  const auto kind = GENERATE(test::classification_head, test::masked_lm_head);
  // Sublayers of each stage: between blocks, inside the first and the last one, and everywhere.
  const std::vector<std::int64_t> balance =
      GENERATE(Counts{6}, Counts{4, 2}, Counts{2, 2, 2}, Counts{1, 5}, Counts{3, 3}, Counts{5, 1}, Counts{4, 1, 1},
               Counts{1, 1, 1, 1, 1, 1});
  const bool split = GENERATE(false, true);
  const std::string form = GENERATE("post-norm", "pre-norm", "DeBERTa");
  const std::int64_t rows_at_once = GENERATE(0, 3);
  if (rows_at_once > 0 && !kind.predicts_tokens) return;
  INFO(model::balance_text(balance, 2) << ", backward " << (split ? "in two parts" : "at once") << ", " << form << ", "
                                       << rows_at_once << " rows of logits at once");
  ModelRange one = model::whole(small_config());
  one.separate_decoder = true;  // as the stages sum its gradients
  model::ModelPlan plan = model::make_plan(form == "DeBERTa" ? small_deberta() : small_config(), kind, outputs);
  if (form == "pre-norm") plan = test::pre_norm(std::move(plan));
  plan.head.rows_at_once = rows_at_once;
  model::ModelPlan storing = plan;
  storing.head.reads_all_logits = true;
  Stages reference(storing, {one}, false),
      staged(plan,
             balance.size() == 1 ? std::vector{one}
                                 : model::partition(static_cast<int>(balance.size()), balance, model::equal_costs(6)),
             split);
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  core::Dropout key;
  ops::set_dropout_key(key, 3, 17);
  for (unsigned m = 0; m < micro_batches; ++m) batches.push_back(make_batch(m));
  const auto context = [&](int m) {
    return layers::StepContext{batches[static_cast<std::size_t>(m)]->view(kind.predicts_tokens), true, key.key0,
                               key.key1};
  };
  double expected[micro_batches], losses[micro_batches];
  for (int m = 0; m < micro_batches; ++m) {
    reference.forward(context(m), 0);
    reference.backward(context(m), 0);
    expected[m] = reference.loss(context(m), 0);
  }
  for (int m = 0; m < micro_batches; ++m) staged.forward(context(m), m);
  for (int m = 0; m < micro_batches; ++m) staged.backward(context(m), m);
  for (int m = 0; split && m < micro_batches; ++m) staged.backward_weight(context(m), m);
  if (rows_at_once > 0) CHECK((staged.computes_loss_in_backward(1) != split));
  for (int m = 0; m < micro_batches; ++m) losses[m] = staged.loss(context(m), m);
  for (int m = 0; m < micro_batches; ++m) CHECK(losses[m] == expected[m]);
  const auto whole = reference.gradients(), mine = staged.gradients();
  REQUIRE(mine.size() == whole.size());
  for (const auto& [name, gradient] : whole) {
    INFO(name);
    CHECK(mine.at(name) == gradient);
  }
}

TEST_CASE("gradients of what is trained are those of a training of everything") {
  const auto kind = GENERATE(test::classification_head, test::masked_lm_head);
  // Whole layers, so that a weight and its bias are trained together: then products add the same terms in one order.
  const std::string what =
      GENERATE("the head", "from block 1 on", "from a feed-forward on", "the embeddings", "a block", "biases");
  const model::Trains trains = [&what](const std::string& name) {
    const bool word = name == "bert.embeddings.word_embeddings.weight";
    const bool head = !name.starts_with("bert.em") && !name.starts_with("bert.encoder.");
    if (what == "the embeddings") return word || name.starts_with("bert.embeddings.");
    if (what == "biases") return head || name.ends_with(".bias");
    if (what == "a block") return name.starts_with("bert.encoder.layer.1.");
    if (what == "the head" || word) return head;
    const bool above = name.starts_with("bert.encoder.layer.2.") || name.starts_with("bert.encoder.layer.1.");
    const bool attention = name.starts_with("bert.encoder.layer.1.attention.");
    return head || (above && (what == "from block 1 on" || !attention));
  };
  const std::vector<std::int64_t> balance = GENERATE(Counts{6}, Counts{3, 3}, Counts{1, 1, 1, 1, 1, 1});
  const bool split = GENERATE(false, true);
  INFO(what << ", " << model::balance_text(balance, 2) << ", backward " << (split ? "in two parts" : "at once"));
  ModelRange one = model::whole(small_config());
  one.separate_decoder = true;
  const auto cut = balance.size() == 1
                       ? std::vector{one}
                       : model::partition(static_cast<int>(balance.size()), balance, model::equal_costs(6));
  Stages all(kind, cut, split), some(kind, cut, split, trains);
  std::vector<std::unique_ptr<test::HostBatch>> batches;
  for (unsigned m = 0; m < micro_batches; ++m) batches.push_back(make_batch(m));
  core::Dropout key;
  ops::set_dropout_key(key, 3, 17);
  for (Stages* stages : {&all, &some}) {
    const auto context = [&](int m) {
      return layers::StepContext{batches[static_cast<std::size_t>(m)]->view(kind.predicts_tokens), true, key.key0,
                                 key.key1};
    };
    for (int m = 0; m < micro_batches; ++m) stages->forward(context(m), m);
    for (int m = 0; m < micro_batches; ++m) stages->backward(context(m), m);
    for (int m = 0; split && m < micro_batches; ++m) stages->backward_weight(context(m), m);
  }
  const auto expected = all.gradients(), found = some.gradients();
  CHECK(found.size() < expected.size());
  for (const auto& [name, gradient] : expected) {
    INFO(name);
    const bool copy = name == "cls.predictions.decoder.weight";
    REQUIRE(found.contains(name) == trains(copy ? "bert.embeddings.word_embeddings.weight" : name));
    if (!found.contains(name)) continue;
    // The sums of a bias without its weight are added in another order: those of fewer than 60 rows, of terms below 1.
    const bool alone = name.ends_with("bias") && !name.ends_with("LayerNorm.bias") &&
                       (what == "biases" || name == "cls.predictions.bias");
    CHECK((alone ? largest_difference(found.at(name), gradient) < 1e-5f : found.at(name) == gradient));
  }
  CHECK(some.workspace_bytes() <= all.workspace_bytes());
  if (what == "the head") CHECK(some.workspace_bytes() < all.workspace_bytes());
}

TEST_CASE("biases that also make keys and queries of distances have the gradients of a training of everything") {
  const bool split = GENERATE(false, true);
  const auto is_bias = [](const std::string& name) { return name.ends_with("bias"); };
  const model::ModelPlan plan = model::make_plan(small_deberta(), test::classification_head, outputs);
  model::ModelPlan of_biases = plan;
  model::set_trains(of_biases, is_bias);
  Stages all(plan, {model::whole(plan)}, split), some(of_biases, {model::whole(plan)}, split);
  const std::unique_ptr<test::HostBatch> batch = make_batch(1);
  core::Dropout key;
  ops::set_dropout_key(key, 3, 17);
  const layers::StepContext context{batch->view(false), true, key.key0, key.key1};
  for (Stages* stages : {&all, &some}) {
    stages->forward(context, 0);
    stages->backward(context, 0);
    if (split) stages->backward_weight(context, 0);
  }
  const auto expected = all.gradients(), found = some.gradients();
  CHECK(found.contains("deberta.encoder.layer.0.attention.self.query_proj.bias"));
  CHECK(found.contains("deberta.encoder.LayerNorm.bias"));
  for (const auto& [name, gradient] : found) {
    INFO(name);
    float largest = 0;
    for (const float g : gradient) largest = std::max(largest, std::abs(g));
    CHECK(largest > 0.0f);
    // Sums in another order, as in the test before.
    CHECK(largest_difference(expected.at(name), gradient) < 1e-5f);
  }
}

TEST_CASE("a separate decoder takes its part of the word embeddings' gradient and the same values") {
  const model::ModelConfig config = small_config();
  ModelRange range = model::whole(config);
  Stages together(test::masked_lm_head, {range}, false);
  range.separate_decoder = true;
  Stages separate(test::masked_lm_head, {range}, false);
  const auto batch = make_batch(1);
  const layers::StepContext context{.batch = batch->masked(), .training = true};
  for (Stages* const stages : {&together, &separate}) {
    stages->forward(context, 0);
    stages->backward(context, 0);
  }
  CHECK(together.loss(context, 0) == separate.loss(context, 0));
  const auto expected = together.gradients(), found = separate.gradients();
  const auto &sum = expected.at("bert.embeddings.word_embeddings.weight"),
             &word = found.at("bert.embeddings.word_embeddings.weight"),
             &decoder = found.at("cls.predictions.decoder.weight");
  bool both = false;
  for (std::size_t i = 0; i < sum.size(); ++i) {
    CHECK(std::abs(sum[i] - (word[i] + decoder[i])) <= 1e-5f);  // the order of fewer than 60 additions of terms below 1
    both |= word[i] != 0 && decoder[i] != 0;
  }
  CHECK(both);
  const auto specs = model::model_parameters(config, test::masked_lm_head, outputs, range);
  CHECK(core::ParameterStore(specs, core::ParameterStore::Arenas::none).parameters() ==
        core::ParameterStore(model::model_parameters(config, test::masked_lm_head, outputs),
                             core::ParameterStore::Arenas::none)
            .parameters());
}

TEST_CASE("one slot with the backward pass at once takes the least memory") {
  const ModelRange range = model::whole(small_config());
  core::ParameterStore store(model::model_parameters(small_config(), test::classification_head, outputs),
                             core::ParameterStore::Arenas::none);
  model::Stage stage(small_config(), test::classification_head, outputs, range, store);
  const layers::BatchBounds bounds{.tokens = 600, .sequences = 50, .max_length = 12, .selected = 50};
  const auto bytes = [&](model::StageMemory memory) {
    core::Workspace workspace;
    stage.plan(workspace, bounds, memory);
    return workspace.bytes();
  };
  const std::int64_t one = bytes({.slots = 1}), two = bytes({.slots = 2}), three = bytes({.slots = 3});
  CHECK(three - two == two - one);
  CHECK(bytes({.slots = 1, .deferred = 1}) > one);
  CHECK(bytes({.training = false}) < one);
  CHECK(two - one < one);
}

TEST_CASE("attention's kept dropout is planned for every slot of training, by the rows that each block computes") {
  model::ModelConfig config = small_config();
  const auto plan = [&](double dropout, std::int64_t tiles, bool training, std::int64_t& kept) {
    model::encoder_settings(config).attention_probs_dropout_prob = dropout;
    core::ParameterStore store(model::model_parameters(config, test::classification_head, outputs),
                               core::ParameterStore::Arenas::none);
    model::Stage stage(config, test::classification_head, outputs, model::whole(config), store);
    core::Workspace workspace;
    stage.plan(workspace, {.tokens = 608, .sequences = 64, .max_length = 150, .selected = 64, .dropout_tiles = tiles},
               {.training = training, .slots = 3});
    kept = stage.dropout_bytes();
    return workspace.bytes();
  };
  std::int64_t kept = 0, none = 0;
  const std::int64_t with = plan(0.1, 3, true, kept), without = plan(0.1, 0, true, none);
  // 3 slots, 3 words of 64 keys for each head and row; the last block computes a row a sequence.
  CHECK(kept == 3 * 3 * config.num_attention_heads * 8 * ((config.num_hidden_layers - 1) * 608 + 64));
  CHECK(none == 0);
  CHECK(with - without == kept);
  CHECK(plan(0.0, 3, true, none) == without);
  CHECK(none == 0);
  // Passes that keep nothing have room for dropout that they draw, in a step that looks ahead.
  CHECK(plan(0.1, 3, false, none) > plan(0.1, 0, false, none));
  CHECK(none == 0);
}
