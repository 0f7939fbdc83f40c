// Models shared out over tensor groups of 2 and 4 ranks against the same model on one: row losses, results and every
// gradient (put together from its shards), with dropout, for every head, with the parts of the backward pass together
// and separately, with fewer rows than ranks, and with adapters.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <random>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/layers/row_factors.hpp"
#include "bert_hpc/model/encoder_settings.hpp"
#include "bert_hpc/model/low_rank.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/model/trainable.hpp"
#include "bert_hpc/ops/dropout.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/pre_norm.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using layers::TensorGroup;
using model::HeadKind;

namespace {

constexpr std::int64_t outputs = 5, most_tokens = 60;

using test::world;

bool everywhere(bool holds) {
  return !world().any(!holds);
}

// Vocabulary and intermediate size divide by neither 2 nor 4.
model::ModelConfig small_config() {
  model::ModelConfig config;
  config.vocab_size = 23;
  config.hidden_size = 24;
  config.num_hidden_layers = 3;
  config.num_attention_heads = 4;
  config.intermediate_size = 41;
  config.max_position_embeddings = 12;
  model::encoder_settings(config).hidden_dropout_prob = model::encoder_settings(config).attention_probs_dropout_prob =
      0.2;
  config.initializer_range = 0.3;  // large enough that no gradient drowns in rounding
  return config;
}

using Batch = std::unique_ptr<test::HostBatch>;

// Every `masked_every`-th token is to be predicted.
Batch make_batch(const std::vector<std::int32_t>& lengths, int masked_every) {
  std::mt19937 random(static_cast<unsigned>(lengths.size() + 100 * static_cast<std::size_t>(masked_every)));
  std::vector<std::int32_t> ids, types, classes, masked_rows, masked_labels;
  std::vector<float> values;
  for (const std::int32_t length : lengths) {
    classes.push_back(static_cast<std::int32_t>(random() % 5));
    for (std::int64_t o = 0; o < outputs; ++o) values.push_back(0.25f * static_cast<float>(random() % 9));
    for (std::int32_t t = 0; t < length; ++t) {
      if (static_cast<int>(ids.size()) % masked_every == masked_every - 1) {
        masked_rows.push_back(static_cast<std::int32_t>(ids.size()));
        masked_labels.push_back(static_cast<std::int32_t>(random() % 23));
      }
      ids.push_back(static_cast<std::int32_t>(random() % 23));
      types.push_back(t % 2);
    }
  }
  auto batch = std::make_unique<test::HostBatch>(ids, types, lengths);
  batch->set_classes(classes);
  batch->set_values(values);
  batch->set_masked(masked_rows, masked_labels);
  return batch;
}

std::vector<Batch> make_batches() {
  std::vector<Batch> batches;
  batches.push_back(make_batch({1, 7, 12, 3}, 3));
  batches.push_back(make_batch({1}, 1));           // fewer rows than ranks, of every kind
  batches.push_back(make_batch({5, 1}, 6));        // one row to predict
  batches.push_back(make_batch({2, 1, 1, 1}, 9));  // none
  batches.push_back(make_batch({11, 9}, 2));
  return batches;
}

model::ModelPlan plan_of(HeadKind kind) {
  return model::make_plan(small_config(), kind, outputs);
}

// With adapters beside every linear layer, and all but them frozen.
model::ModelPlan adapted_plan_of(HeadKind kind, bool magnitudes) {
  model::ModelPlan plan = plan_of(kind);
  model::add_adapters(plan,
                      {.rank = 3, .alpha = 5, .magnitudes = magnitudes, .dropout = 0.2, .targets = {"all-linear"}}, 0);
  model::set_trains(plan, model::trainable_parameters(plan, {.parameters = "lora"}));
  return plan;
}

// b̂ begins as zeros, beside which a has no gradient: here it begins as weights do.
std::vector<core::ParameterSpec> parameters_of(const model::ModelPlan& plan, const model::ModelRange& range,
                                               const layers::TensorRank& tensor_rank) {
  std::vector<core::ParameterSpec> specs = model::model_parameters(plan, range, tensor_rank);
  for (core::ParameterSpec& spec : specs) {
    if (spec.name.ends_with(layers::adapter_b(""))) spec.initial = core::InitialValues::normal;
  }
  return specs;
}

// A model, or a rank's part of it, and the objects that run it.
class Part {
 public:
  Part(const model::ModelPlan& plan, comm::Communicator* group, bool split, model::ModelRange range)
      : group_(group != nullptr ? TensorGroup({group->rank(), group->size()}, exchange_) : TensorGroup()),
        store_(parameters_of(plan, range, group_.tensor_rank()), core::ParameterStore::Arenas::with_gradients),
        stage_(plan, range, store_, group_),
        products_(ops::make_matrix_product(test::independent_products())),
        attention_(ops::make_attention()),
        factors_(store_, group_),
        split_(split) {
    model::initialize_parameters(store_, small_config(), 5);
    const layers::BatchBounds bounds{.tokens = most_tokens, .sequences = 5, .max_length = 12, .selected = most_tokens};
    stage_.plan(workspace_, bounds, {.slots = 1, .deferred = split ? 1 : 0});
    stage_.plan(workspace_, bounds, {.training = false});
    workspace_.allocate();
    if (group != nullptr) exchange_.connect(*group, most_tokens, small_config().hidden_size);
    for (const ops::ProductExtents& e : model::product_extents({&stage_, 1}, bounds)) products_->reserve(e);
    attention_->reserve(12, 6);
    for (const layers::LinearWeight& weight : stage_.block_weights()) {
      layers::plan_scratch(weight, bounds, core::DataType::fp32, scratch_);
    }
    scratch_.allocate();
    layers::set_magnitudes(store_, group_);
  }

  std::vector<float> train(const layers::StepContext& context) {
    layers::Engine engine = engine_of();
    stage_.open(workspace_, context);
    stage_.forward(engine, context);
    stage_.loss(context, 0.5f);
    const auto finished = [](std::int64_t) {};
    if (split_) {
      stage_.backward_input(engine, context, workspace_, 0, 0);
      stage_.backward_weight(engine, context, finished, 0, 0);
    } else {
      stage_.backward(engine, context, workspace_, finished);
    }
    return test::copy_of(stage_.row_losses(), context.batch.targets.rows.count);
  }

  std::vector<std::int32_t> predict(const layers::StepContext& context) {
    layers::Engine engine = engine_of();
    test::Vector<std::int32_t> predicted(static_cast<std::size_t>(context.batch.targets.rows.count));
    stage_.open(workspace_, context);
    stage_.forward(engine, context);
    stage_.predict(predicted.data());
    core::wait_for_kernels();
    return {predicted.begin(), predicted.end()};
  }

  const core::ParameterStore& store() const { return store_; }
  std::int64_t workspace_bytes() const { return workspace_.bytes(); }

 private:
  layers::Engine engine_of() {
    layers::Engine engine{*products_, *attention_};
    engine.scratch = &scratch_;
    engine.factors = &factors_;
    return engine;
  }

  layers::TensorExchange exchange_;
  TensorGroup group_;
  core::ParameterStore store_;
  model::Stage stage_;
  std::unique_ptr<ops::MatrixProduct> products_;
  std::unique_ptr<ops::Attention> attention_;
  core::Workspace workspace_, scratch_;
  layers::RowFactors factors_;
  bool split_;
};

// Returns the whole of a slice whose shards lie on the ranks of a group. A replicated parameter must be identical on
// all ranks.
std::vector<float> assemble(const core::ParameterSlice& slice, std::span<const float> arena, comm::Communicator& group,
                            bool& identical) {
  const std::vector<float> content =
      test::copy_of(arena.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size)));
  const std::span<const float> part(content);
  if (slice.shard.is_whole()) {
    std::vector<std::byte> all(part.size_bytes() * static_cast<std::size_t>(group.size()));
    group.all_gather(std::as_bytes(part), all);
    for (std::size_t i = 0; i < all.size(); ++i) identical &= all[i] == all[i % part.size_bytes()];
    return {part.begin(), part.end()};
  }
  std::int64_t size = 1;
  for (const std::int64_t extent : core::whole_shape(slice.shape, slice.shard)) size *= extent;
  test::Vector<float> whole(static_cast<std::size_t>(size));
  core::put_shard(slice.shape, slice.shard, part, {whole.host(), whole.size()});
  group.all_reduce(std::span<float>(whole), comm::Reduction::sum);
  return test::copy_of(whole.data(), size);
}

double largest(std::span<const float> values) {
  double result = 0;
  for (const float value : values) result = std::max(result, std::abs(static_cast<double>(value)));
  return result;
}

// Largest difference of two vectors of one size; infinity for NaN and other sizes.
double difference(std::span<const float> a, std::span<const float> b) {
  double result = a.size() == b.size() ? 0 : INFINITY;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const double d = std::abs(static_cast<double>(a[i]) - b[i]);
    if (!(d <= result)) result = std::isnan(d) ? INFINITY : d;
  }
  return result;
}

// A pass is a chain of about 40 sums (forward and backward through three blocks with embeddings and head) of at most 72
// terms, which a group adds in another order. Their roundings of 2^-24 add up as a random walk does, to √(40 · 72) ·
// 2^-24 = 3.2e-6 of the largest of the numbers compared; five times that is allowed.
constexpr double tolerance = 1.6e-5;

void check_group(const model::ModelPlan& plan, int size, bool split) {
  const HeadKind kind = plan.head.kind;
  const auto group = world().split(world().rank() / size, world().rank());
  model::ModelRange range = model::whole(small_config());
  range.separate_decoder = split;
  Part whole(plan, nullptr, split, range), shared(plan, group.get(), split, range);
  INFO(size << " ranks, head " << kind.class_suffix << (split ? ", two parts" : ""));

  bool identical = true;
  for (std::size_t i = 0; i < whole.store().slices().size(); ++i) {
    const core::ParameterSlice& slice = whole.store().slices()[i];
    const auto values = test::copy_of(
        whole.store().values().subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size)));
    const auto mine = assemble(shared.store().slices()[i], shared.store().values(), *group, identical);
    INFO(slice.name << ": initial values");
    // Magnitudes are norms: sums over ranks.
    const double allowed = layers::is_adapter_magnitude(slice.name) ? tolerance * largest(values) : 0;
    CHECK(everywhere(difference(values, mine) <= allowed));
  }

  core::Dropout key;
  ops::set_dropout_key(key, 3, 17);
  for (const Batch& batch : make_batches()) {
    const core::MicroBatch& view = batch->view(kind.predicts_tokens);
    const layers::StepContext context{view, true, key.key0, key.key1}, evaluation{.batch = view};
    const std::vector<std::int32_t> expected = whole.predict(evaluation), found = shared.predict(evaluation);
    CHECK(everywhere(expected == found));
    const std::vector<float> losses = whole.train(context), mine = shared.train(context);
    CHECK(everywhere(difference(losses, mine) <= (size == 1 ? 0 : tolerance * largest(losses))));
  }

  const double scale = largest(test::copy_of(whole.store().gradients()));
  for (std::size_t i = 0; i < whole.store().slices().size(); ++i) {
    const core::ParameterSlice& slice = whole.store().slices()[i];
    if (!slice.trainable) continue;
    const auto expected = test::copy_of(whole.store().gradients().subspan(static_cast<std::size_t>(slice.offset),
                                                                          static_cast<std::size_t>(slice.size)));
    const auto found = assemble(shared.store().slices()[i], shared.store().gradients(), *group, identical);
    const double off = difference(expected, found);
    INFO(slice.name << " differs by " << off << " of " << largest(expected) << ", the largest being " << scale);
    CHECK(everywhere(off <= (size == 1 ? 0 : tolerance * scale)));
  }
  CHECK(everywhere(identical));
}

}  // namespace

TEST_CASE("a model on a tensor group gives the results of one rank") {
  const int size = GENERATE(1, 2, 4);
  if (world().size() % size != 0) return;
  const auto kind = GENERATE(test::classification_head, test::regression_head, test::masked_lm_head);
  check_group(plan_of(kind), size, GENERATE(false, true));
}

TEST_CASE("a pre-norm model on a tensor group gives the results of one rank") {
  const int size = GENERATE(1, 2, 4);
  if (world().size() % size != 0) return;
  const auto kind = GENERATE(test::classification_head, test::masked_lm_head);
  check_group(test::pre_norm(plan_of(kind)), size, GENERATE(false, true));
}

TEST_CASE("logits in parts give the results of one rank on a tensor group") {
  const int size = GENERATE(1, 2, 4);
  if (world().size() % size != 0) return;
  model::ModelPlan plan = plan_of(test::masked_lm_head);
  plan.head.rows_at_once = 3;
  if (GENERATE(false, true)) plan.head.dense = plan.head.bias = "";
  check_group(plan, size, GENERATE(false, true));
}

TEST_CASE("a decoder without layers before it gives the results of one rank on a tensor group") {
  const int size = GENERATE(1, 2, 4);
  if (world().size() % size != 0) return;
  model::ModelPlan plan = test::pre_norm(plan_of(test::masked_lm_head));
  plan.head.dense = plan.head.bias = "";
  check_group(plan, size, GENERATE(false, true));
}

TEST_CASE("adapters on a tensor group give the results of one rank") {
  const int size = GENERATE(1, 2, 4);
  if (world().size() % size != 0) return;
  const bool magnitudes = GENERATE(false, true);
  INFO((magnitudes ? "with magnitudes" : "without magnitudes"));
  check_group(adapted_plan_of(test::classification_head, magnitudes), size, GENERATE(false, true));
}

TEST_CASE("a tensor group divides parameters and activations") {
  const int size = world().size();
  if (size == 1) SKIP("needs two ranks");
  const model::ModelRange range = model::whole(small_config());
  const model::ModelPlan plan = plan_of(test::masked_lm_head);
  Part whole(plan, nullptr, false, range), shared(plan, &world(), false, range);
  const std::int64_t parameters = world().sum(shared.store().parameters());
  std::int64_t copies = 0;
  for (const core::ParameterSlice& slice : shared.store().slices()) {
    if (slice.shard.is_whole()) copies += slice.size;
  }
  CHECK(parameters == whole.store().parameters() + (size - 1) * copies);
  // Selected inputs of the last block, rounding and alignment are all that is not divided.
  CHECK(everywhere(static_cast<double>(shared.workspace_bytes()) <
                   1.25 / size * static_cast<double>(whole.workspace_bytes())));
}
