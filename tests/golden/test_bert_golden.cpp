// The model against Hugging Face Transformers, and Bi-LSTMs against PyTorch: logits, losses and the gradient of every
// parameter for a batch with text pairs, single tokens and the longest length, then 20 steps of AdamW. Goldens are
// float64; ours is fp32, so tolerances are small multiples of fp32 rounding (6e-8) times the roundings on the way:
// PyTorch's own fp32 lies up to 7e-7 away in logits and losses, 1e-6 in gradients, and 1.3e-6 in the losses of the 20
// steps; ours as far (1.5e-6 in the steps).
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/train/optimizer.hpp"
#include "bert_hpc/train/shared_gradients.hpp"
#include "golden/golden_file.hpp"
#include "support/host_batch.hpp"

using namespace bert_hpc;
using model::HeadKind;

namespace {

/// Every folder that generate.py has written: "classification", or "electra_classification_small" of another family and
/// of a model that differs from the family's other one.
std::vector<std::string> golden_tasks() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(test::tests_directory() / "golden" / "bert")) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

HeadKind kind_of(const std::string& golden) {
  std::string rest = golden;
  for (const std::string& family : model::family_names()) {
    const std::string start = family.substr(0, family.find("-v")) + '_';  // of deberta-v2 without the version
    if (golden.starts_with(start)) rest = golden.substr(start.size());
  }
  std::string longest;
  for (const std::string& task : tasks::names()) {
    const bool fits = rest == task || rest.starts_with(task + '_');
    if (fits && task.size() > longest.size()) longest = task;
  }
  if (longest.empty()) throw std::runtime_error(golden + " has no task's name");
  return objectives::named(longest).head;
}

// Whether the true gradient is zero. A key's bias shifts all scores of a row of attention equally, unless keys are
// rotated (ESM); a span's softmax is over all tokens of a sequence, whose scores the last two biases shift equally; a
// query's over its candidates, whose scores the last bias shifts equally.
bool has_zero_gradient(const test::GoldenBatch& batch, const std::string& name) {
  if ((name.ends_with("key.bias") && !name.starts_with("esm.")) || name.ends_with("k_lin.bias") ||
      name.ends_with("attn.k.bias")) {
    return true;
  }
  const bool last_bias = name == "classifier.bias" || name == "classifier.out_proj.bias";
  if (last_bias && !(batch.lists.empty() && batch.spans.empty())) return true;
  const bool last_norm = name.ends_with("layer.0.output.LayerNorm.bias") || name.ends_with("output_layer_norm.bias") ||
                         name.ends_with("full_layer_layer_norm.bias");
  return !batch.spans.empty() && (name == "qa_outputs.bias" || last_norm);  // models with spans have one layer
}

std::unique_ptr<test::HostBatch> host_batch(const test::GoldenBatch& golden) {
  std::vector<std::int32_t> lengths;
  for (std::size_t b = 1; b < golden.offsets.size(); ++b) lengths.push_back(golden.offsets[b] - golden.offsets[b - 1]);
  auto batch = std::make_unique<test::HostBatch>(golden.input_ids, golden.token_type_ids, lengths);
  if (!golden.labels.empty()) batch->set_classes(golden.labels);
  if (!golden.values.empty()) batch->set_values(golden.values);
  if (!golden.masked_rows.empty()) batch->set_masked(golden.masked_rows, golden.masked_labels);
  if (!golden.masked_rows.empty() && !golden.labels.empty()) batch->set_pairs(golden.labels);
  if (!golden.spans.empty()) batch->set_spans(golden.spans);
  if (!golden.lists.empty()) batch->set_lists(golden.lists);
  return batch;
}

// One model of the golden files with everything that runs it.
class Trainee {
 public:
  explicit Trainee(const std::string& task, core::DataType storage = core::DataType::fp32,
                   std::int64_t rows_at_once = 0)
      : kind(kind_of(task)),
        golden(task),
        config(model::read_hf_config(golden.model_folder())),
        store(model::model_parameters(config, kind, config.num_labels()), core::ParameterStore::Arenas::with_gradients,
              {}, arenas_.memory()),
        plan(plan_of(config, kind, storage, rows_at_once)),
        bert(plan, model::whole(plan), store),
        shared_(store, specs_of(plan), train::shared_parameters(specs_of(plan), ""), *alone_, {.all_here = true}),
        products_(ops::make_matrix_product("", {.compute = storage})),
        attention_(ops::make_attention("fused", storage)) {
    model::load_hf_weights(golden.model_folder(), store, {.family = config.family, .weights = plan.weights});
    for (int i = 0; i < test::GoldenFile::batches; ++i) batches.push_back(host_batch(golden.batch(i)));
    const layers::BatchBounds bounds{.tokens = 256,
                                     .sequences = 8,
                                     .max_length = 64,
                                     .selected = 256,
                                     .dropout_tiles = attention_->dropout_tiles(64, config.head_dim())};
    bert.plan(workspace_, bounds, {});
    workspace_.allocate();
    for (const ops::ProductExtents& e : model::product_extents({&bert, 1}, bounds)) products_->reserve(e);
    attention_->reserve(bounds.max_length, config.head_dim(), plan.has_relative_positions());
    for (const layers::LinearWeight& weight : bert.block_weights()) {
      layers::plan_scratch(weight, bounds, storage, scratch_);
    }
    scratch_.allocate();
  }

  const core::MicroBatch& batch(int index) const {
    const test::HostBatch& batch = *batches[static_cast<std::size_t>(index)];
    if (plan.head.token == layers::SequenceToken::last) return batch.last_tokens();
    return kind.reads_all_tokens ? batch.all_tokens() : batch.view(kind.predicts_tokens || kind.is_token_head);
  }

  void forward(const core::MicroBatch& batch) {
    const layers::StepContext context{.batch = batch, .training = true};
    bert.open(workspace_, context);
    bert.forward(engine_, context);
  }

  /// Loss and, added to the store, whose gradients are zeros, the gradients of the pass before.
  double backward(const core::MicroBatch& batch) {
    const layers::StepContext context{.batch = batch, .training = true};
    const std::int64_t targets = core::target_count(batch);
    bert.loss(context, 1.0f / static_cast<float>(targets), 0, {.sequence_weight = sequence_weight(batch)});
    bert.backward(engine_, context, workspace_, [](std::int64_t) {});
    double sum = 0;
    for (const float loss : test::copy_of(bert.row_losses(), batch.targets.rows.count)) sum += loss;
    const train::OwnedRange all{0, store.arena_size(), store.gradients().data()};
    shared_.add({&all, 1});
    return sum / static_cast<double>(targets);
  }

  /// With which the loss is the mean of masked tokens and that of sequences together.
  static float sequence_weight(const core::MicroBatch& batch) {
    return static_cast<float>(core::target_count(batch)) / static_cast<float>(batch.sequences);
  }

  /// (targets), of the backward pass before.
  std::vector<float> losses(const core::MicroBatch& batch) const {
    const std::vector<float> rows = test::copy_of(bert.row_losses(), batch.targets.rows.count);
    if (const auto& targets = batch.targets.get<core::ListTargets>(); targets.data != nullptr) {
      std::vector<float> of_queries;
      const auto lists = test::copy_of(targets.data, 2 * targets.count);
      for (std::size_t q = 0; q < lists.size(); q += 2) of_queries.push_back(rows[static_cast<std::size_t>(lists[q])]);
      return of_queries;
    }
    if (batch.targets.has_parts()) {  // those of sequences are weighted
      std::vector<float> plain = rows;
      for (auto row = static_cast<std::size_t>(batch.targets.masked.rows.count); row < plain.size(); ++row) {
        plain[row] /= sequence_weight(batch);
      }
      return plain;
    }
    if (batch.targets.get<core::SpanTargets>().data == nullptr) return rows;
    const std::vector<std::int32_t> sequence = test::copy_of(batch.tokens.sequence, batch.tokens.count);
    std::vector<float> sums(static_cast<std::size_t>(batch.sequences), 0.0f);
    for (std::size_t row = 0; row < rows.size(); ++row) sums[static_cast<std::size_t>(sequence[row])] += rows[row];
    return sums;
  }

  /// Golden numbers of a parameter: `what` and the name of the tensor that holds it.
  std::vector<double> numbers(const std::string& what, const core::ParameterSlice& slice) const {
    const model::WeightSource source = plan.weights.source_of(slice.copy_of.empty() ? slice.name : slice.copy_of);
    const std::vector<double> all = golden.numbers(what + source.tensor);
    const core::ShardRuns runs = model::stored_runs(source, slice.shape, slice.shard);
    std::vector<float> values;  // goldens of parameters are floats
    for (std::int64_t i = 0; i < slice.size; ++i) {
      values.push_back(static_cast<float>(all[static_cast<std::size_t>(runs.index(i))]));
    }
    model::to_parameter_order(source, slice.shape, values);
    return {values.begin(), values.end()};
  }

  std::span<const float> slice(std::span<const float> arena, const core::ParameterSlice& slice) const {
    return arena.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
  }

  HeadKind kind;
  test::GoldenFile golden;
  model::ModelConfig config;

 private:
  static model::ModelPlan plan_of(const model::ModelConfig& config, const HeadKind& kind, core::DataType storage,
                                  std::int64_t rows_at_once) {
    model::ModelPlan plan = model::make_plan(config, kind, config.num_labels(), storage);
    plan.head.rows_at_once = rows_at_once;
    return plan;
  }
  static std::vector<core::ParameterSpec> specs_of(const model::ModelPlan& plan) {
    return model::model_parameters(plan, model::whole(plan));
  }

  test::Arenas arenas_;
  std::unique_ptr<comm::Communicator> alone_ = comm::make_self_communicator();

 public:
  core::ParameterStore store;
  model::ModelPlan plan;
  model::Stage bert;
  std::vector<std::unique_ptr<test::HostBatch>> batches;

 private:
  train::SharedGradients shared_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  core::Workspace workspace_, scratch_;
  layers::Engine engine_{.products = *products_, .attention = *attention_, .scratch = &scratch_};
};

double gradient_norm(const core::ParameterStore& store) {
  double sum = 0;
  for (std::size_t i = 0; i < store.slices().size(); ++i) {
    const core::ParameterSlice& slice = store.slices()[i];
    if (!slice.copy_of.empty()) continue;
    const std::vector<float> gradients = test::copy_of(store.gradients().data() + slice.offset, slice.size);
    for (const float g : gradients) sum += static_cast<double>(g) * g;
  }
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("logits, losses and every gradient equal those of Transformers") {
  for (const std::string& task : golden_tasks()) {
    for (const std::int64_t rows_at_once : {0, 5}) {
      if (rows_at_once > 0 && !kind_of(task).predicts_tokens) continue;
      INFO(task << ", " << rows_at_once << " rows of logits at once");
      Trainee trainee(task, core::DataType::fp32, rows_at_once);
      const core::MicroBatch& batch = trainee.batch(0);
      trainee.forward(batch);
      if (rows_at_once > 0) {
        REQUIRE(trainee.bert.computes_loss_in_backward());
      } else {
        const std::vector<float> dense = test::floats_of(trainee.bert.logits());
        CHECK(test::relative_error(dense, trainee.golden.numbers("logits")) < 2e-6);
      }
      if (trainee.kind.labels_sequences) {
        const std::vector<float> pairs = test::floats_of(trainee.bert.sequence_logits());
        CHECK(test::relative_error(pairs, trainee.golden.numbers("sequence_logits")) < 2e-6);
      }

      const double loss = trainee.backward(batch);
      CHECK(std::abs(loss - trainee.golden.numbers("loss")[0]) < 2e-6 * loss);
      CHECK(test::relative_error(trainee.losses(batch), trainee.golden.numbers("row_loss")) < 2e-6);

      double largest = 0;
      for (const core::ParameterSlice& slice : trainee.store.slices()) {
        largest = std::max(largest, test::norm(trainee.numbers("gradient.", slice)));
      }
      for (const core::ParameterSlice& slice : trainee.store.slices()) {
        INFO(slice.name);
        const std::vector<double> golden = trainee.numbers("gradient.", slice);
        // A gradient that is truly zero holds the rounding of sums whose terms have the size of the largest gradient:
        // 1e-4 of the floor is 1e-7 of that.
        const double tolerance = has_zero_gradient(trainee.golden.batch(0), slice.name) ? 1e-4 : 5e-6;
        CHECK(test::relative_error(trainee.slice(trainee.store.gradients(), slice), golden, 1e-3 * largest) <
              tolerance);
      }
    }
  }
}

// In 16 bits an activation is rounded about ten times a block, each time by at most u of it (2⁻⁸ for bf16, 2⁻¹¹ for
// fp16) and by less than half of that on average: some 3·u after three blocks if roundings add up like a random walk.
// The layers are bent and steep here, so that a rounding may grow on its way: 10·u are allowed in logits and losses,
// 20·u in gradients, which go through twice as many. DistilBERT's classification has a ReLU, whose gradient jumps where
// its input passes zero: of units spread like a normal distribution, a rounding of 3·u moves 2·0.4·3·u over zero, each
// of which brings all of its gradient or loses it. Of the squared norm that is the share 2·2.4·u of the half that is
// above zero; √(10·u) are allowed. A maximum of tokens jumps likewise, from one token to another.
TEST_CASE("in 16 bits logits, losses and gradients equal those of Transformers except for rounding") {
  for (const core::DataType type : {core::DataType::bf16, core::DataType::fp16}) {
    const double unit = core::unit_roundoff(type);
    for (const std::string& task : golden_tasks()) {
      INFO(task << " in " << core::name_of(type));
      Trainee trainee(task, type);
      const core::MicroBatch& batch = trainee.batch(0);
      trainee.forward(batch);
      const std::vector<float> dense = test::floats_of(trainee.bert.logits());
      const double of_logits = test::relative_error(dense, trainee.golden.numbers("logits"));
      CHECK(of_logits < 10 * unit);
      CHECK(of_logits > 0.1 * unit);  // it does compute in 16 bits
      const double loss = trainee.backward(batch);
      CHECK(std::abs(loss - trainee.golden.numbers("loss")[0]) < 10 * unit * loss);
      double largest = 0;
      for (const core::ParameterSlice& slice : trainee.store.slices()) {
        largest = std::max(largest, test::norm(trainee.numbers("gradient.", slice)));
      }
      const bool jumps = task == "distilbert_classification" || task == "bilstm_classification_max";
      const double tolerance = jumps ? std::sqrt(10 * unit) : 20 * unit;
      for (const core::ParameterSlice& slice : trainee.store.slices()) {
        if (has_zero_gradient(trainee.golden.batch(0), slice.name)) continue;
        INFO(slice.name);
        const std::vector<double> golden = trainee.numbers("gradient.", slice);
        CHECK(test::relative_error(trainee.slice(trainee.store.gradients(), slice), golden, 0.02 * largest) <
              tolerance);
      }
    }
  }
}

TEST_CASE("twenty steps of AdamW follow PyTorch's") {
  for (const std::string& task : golden_tasks()) {
    INFO(task);
    Trainee trainee(task);
    const train::OwnedRange all{0, trainee.store.arena_size(), trainee.store.gradients().data()};
    train::Optimizer optimizer({}, trainee.store, std::span(&all, 1));
    const std::vector<double> losses = trainee.golden.numbers("adamw.loss");
    const std::vector<double> norms = trainee.golden.numbers("adamw.norm");
    for (int step = 0; step < test::GoldenFile::adamw_steps; ++step) {
      INFO("step " << step);
      const core::MicroBatch& batch = trainee.batch(step % test::GoldenFile::batches);
      trainee.forward(batch);
      const double loss = trainee.backward(batch), norm = gradient_norm(trainee.store);
      const auto i = static_cast<std::size_t>(step);
      CHECK(std::abs(loss - losses[i]) < 1e-5 * std::max(1.0, losses[i]));
      // Where a regression has nearly reached its target, its gradient is a small difference: 1e-6 of a prediction of
      // 3 in a residual of 0.1. With a residual of 0.04 it is as exact as the terms of that difference.
      const double size = losses[i] < 0.01 ? *std::max_element(norms.begin(), norms.end()) : norms[i];
      CHECK(std::abs(norm - norms[i]) < 3e-5 * std::max(1.0, size));
      optimizer.step(1e-3, step + 1, norm);
    }
    if (!trainee.golden.has("adamw.value." + trainee.store.slices()[0].name)) continue;
    for (const core::ParameterSlice& slice : trainee.store.slices()) {
      // Adam divides a gradient by its own size, so that rounding noise becomes whole steps.
      if (has_zero_gradient(trainee.golden.batch(0), slice.name)) continue;
      INFO(slice.name);
      const std::vector<double> golden = trainee.numbers("adamw.value.", slice);
      CHECK(test::relative_error(trainee.slice(trainee.store.values(), slice), golden) < 1e-5);
    }
  }
}
