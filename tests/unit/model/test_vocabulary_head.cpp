// Heads with a logit for each token of the vocabulary, with the logits that GPU builds have: rows padded, and in the
// storage type. Padding changes no bit; 16-bit logits change losses and gradients by a rounding of each logit. Heads
// that compute the logits of some rows at once have the bits of heads with all logits.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "support/heads.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using core::DataType;

namespace {

constexpr std::int64_t rows = 9, hidden = 32, outputs = 301;

struct Result {
  std::vector<float> losses, gradients, d_x;
  std::vector<std::int32_t> predicted;
  std::vector<float> evaluated;  ///< losses of an evaluation
  std::int64_t bytes = 0;
};

/// How a head treats more rows than it computes at once.
struct Parts {
  std::int64_t rows_at_once = 0;
  bool stores_logits = true;
};

/// An evaluation, with predictions, then a forward and backward pass.
Result pass_with(DataType storage, DataType logits, bool padded, bool transforms = true, const Parts& parts = {}) {
  layers::HeadSettings settings{.kind = test::masked_lm_head,
                                .hidden = hidden,
                                .outputs = outputs,
                                .storage = storage,
                                .logits = logits,
                                .pads_logits = padded,
                                .rows_at_once = parts.rows_at_once,
                                .activation = layers::Activation::gelu,
                                .decoder = "cls.predictions.decoder.weight",
                                .declares_decoder = true};
  if (!transforms) settings.dense = settings.bias = "";
  std::vector<core::ParameterSpec> specs;
  layers::declare_head(settings, specs);
  test::Arenas arenas;
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, arenas.memory());
  std::mt19937 random(5);
  std::normal_distribution<float> normal(0.0f, 0.5f);
  for (float& value : store.change_values()) value = normal(random);
  const auto head = layers::make_head(settings, store);
  core::Workspace workspace;
  const auto memory = head->make_saved();
  layers::Head::SavedActivations& saved = *memory;
  const layers::HeadBatch extents{.selected = rows, .tokens = rows, .stores_logits = parts.stores_logits};
  head->allocate_saved(workspace, extents, saved);
  const std::int64_t bytes = workspace.bytes();
  for (int i = 0; i < 2; ++i) static_cast<void>(workspace.take(rows, hidden, storage));
  workspace.allocate();
  head->allocate_saved(workspace, extents, saved);
  CHECK(saved.logits.type == logits);
  CHECK(saved.logits.stride == (padded ? 320 : outputs));
  const core::Matrix x = workspace.take(rows, hidden, storage), d_x = workspace.take(rows, hidden, storage);
  core::with_type(storage, [&]<class T>() {
    std::vector<T> input;
    for (std::int64_t i = 0; i < x.size(); ++i) input.push_back(T(normal(random)));
    core::copy_to_device(input.data(), x.data, input.size() * sizeof(T));
  });
  const auto products = ops::make_matrix_product(test::independent_products(), {.compute = storage});
  for (const std::int64_t out : {hidden, outputs}) products->reserve({.rows = rows, .in = hidden, .out = out});
  const auto attention = ops::make_attention();
  layers::Engine engine{*products, *attention};
  const test::Rows selection(std::vector<int>{static_cast<int>(rows)});
  const test::Vector<std::int64_t> sample = {7};
  test::Vector<std::int32_t> labels, predicted(static_cast<std::size_t>(rows));
  for (std::int64_t i = 0; i < rows; ++i) labels.push_back(static_cast<std::int32_t>(i * 37 % outputs));
  core::MicroBatch batch;
  batch.sequences = 1;
  batch.sample = sample.data();
  batch.tokens = batch.targets.rows = selection.view();
  batch.targets.get<core::ClassTargets>().data = labels.data();
  const layers::StepContext evaluation{.batch = batch}, context{.batch = batch, .training = true};
  Result result;
  result.bytes = bytes;
  head->forward(engine, evaluation, x, saved);
  head->predict(saved, predicted.data());
  layers::apply_loss(settings.kind.loss, *head, evaluation, 1.0f, {}, saved);
  core::wait_for_kernels();
  result.predicted.assign(predicted.begin(), predicted.end());
  result.evaluated = test::copy_of(saved.row_losses.data, rows);
  head->forward(engine, context, x, saved);
  layers::apply_loss(settings.kind.loss, *head, context, 0.25f, {}, saved);
  head->backward_input(engine, context, saved, d_x);
  head->backward_weight(engine, saved, x);
  result.losses = test::copy_of(saved.row_losses.data, rows);
  result.gradients = test::copy_of(store.gradients());
  result.d_x = test::floats_of(d_x);
  return result;
}

double norm(const std::vector<float>& x) {
  double sum = 0;
  for (const float value : x) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

}  // namespace

TEST_CASE("padded rows of logits change no bit") {
  if (core::is_gpu_build()) SKIP("the library chooses other algorithms");
  for (const DataType storage : {DataType::fp32, DataType::bf16}) {
    for (const bool transforms : {true, false}) {
      const Result plain = pass_with(storage, DataType::fp32, false, transforms);
      const Result padded = pass_with(storage, DataType::fp32, true, transforms);
      CHECK(padded.losses == plain.losses);
      CHECK(padded.gradients == plain.gradients);
      CHECK(padded.predicted == plain.predicted);
      CHECK(norm(plain.gradients) > 0);
    }
  }
}

TEST_CASE("logits in 16 bits change losses and gradients by their rounding") {
  for (const DataType type : {DataType::bf16, DataType::fp16}) {
    INFO(core::name_of(type));
    const Result floats = pass_with(type, DataType::fp32, false), rounded = pass_with(type, type, true);
    // Logits are sums of 32 products of a normed feature and a weight of deviation 0.5: below 16. Each is off by half a
    // unit of that, so that a loss, their log-sum-exp less one of them, is off by two of these at most.
    const double unit = core::unit_roundoff(type);
    double worst = 0;
    for (std::size_t i = 0; i < floats.losses.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(rounded.losses[i] - floats.losses[i])));
    }
    CHECK(worst < 2 * unit * 16);
    CHECK(worst > 0);
    // A probability is off by as much of itself, and its gradient is rounded once, as it was before its products.
    std::vector<float> difference = floats.gradients;
    for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= rounded.gradients[i];
    CHECK(norm(difference) < (2 * 16 + 1) * unit * norm(floats.gradients));
  }
}

TEST_CASE("logits in parts have the bits of logits that are stored, in less memory") {
  if (core::is_gpu_build()) SKIP("the library chooses other algorithms");
  const auto [storage, logits] =
      GENERATE(std::pair(DataType::fp32, DataType::fp32), std::pair(DataType::bf16, DataType::bf16));
  const bool transforms = GENERATE(true, false);
  const Result stored = pass_with(storage, logits, true, transforms, {.rows_at_once = 4});
  const Result parts = pass_with(storage, logits, true, transforms, {.rows_at_once = 4, .stores_logits = false});
  const Result whole = pass_with(storage, logits, true, transforms);
  for (const Result* const other : {&stored, &whole}) {
    CHECK(parts.losses == other->losses);
    CHECK(parts.evaluated == other->evaluated);
    CHECK(parts.predicted == other->predicted);
    CHECK(parts.d_x == other->d_x);
  }
  CHECK(parts.losses == parts.evaluated);
  CHECK(norm(parts.d_x) > 0);
  CHECK(parts.gradients == stored.gradients);
  // Sums of 9 terms in two orders differ by at most 9 roundings.
  std::vector<float> difference = whole.gradients;
  for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= parts.gradients[i];
  CHECK(norm(difference) < 9 * core::unit_roundoff(DataType::fp32) * norm(whole.gradients));
  CHECK(norm(whole.gradients) > 0);
  // Five of nine rows of logits, padded to 320, have no memory.
  CHECK(stored.bytes - parts.bytes >= 5 * 320 * core::bytes_of(logits) - 128);  // alignment, predictions
}
