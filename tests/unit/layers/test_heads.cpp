// Heads with a classifier against plain loops in double precision and central differences of these: logits, losses, the
// gradient at the input and of every parameter.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <memory>
#include <vector>

#include "bert_hpc/layers/heads.hpp"
#include "plain_layers.hpp"
#include "support/heads.hpp"
#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using layers::Activation;
using layers::HeadSettings;
using test::Grid;

namespace {

constexpr std::int64_t hidden = 16, outputs = 3, rows = 4;
// Derived in test_sublayers.cpp.
constexpr double result_tolerance = 4e-6, gradient_tolerance = 8e-6;

Grid plain_logits(const HeadSettings& settings, const test::PlainParameters& parameters, const Grid& x) {
  if (settings.kind.is_token_head) return plain_linear(x, parameters, "classifier");
  return plain_linear(plain_activation(plain_linear(x, parameters, "dense"), settings.activation), parameters,
                      "classifier");
}

/// −log softmax(logits)[class] of each row.
std::vector<double> plain_losses(const Grid& logits, const std::vector<std::int32_t>& classes) {
  std::vector<double> losses;
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    double sum = 0;
    for (std::int64_t c = 0; c < logits.columns; ++c) sum += std::exp(logits(r, c));
    losses.push_back(std::log(sum) - logits(r, classes[static_cast<std::size_t>(r)]));
  }
  return losses;
}

}  // namespace

TEST_CASE("A head's logits, losses and gradients are those of plain loops", "[layers][head]") {
  const bool of_tokens = GENERATE(false, true);
  const auto activation = GENERATE(Activation::tanh, Activation::gelu, Activation::relu);
  if (of_tokens && activation != Activation::tanh) return;  // it has none
  const HeadSettings settings{.kind = of_tokens ? test::token_head : test::classification_head,
                              .hidden = hidden,
                              .outputs = outputs,
                              .classifier_dropout = 0,
                              .activation = activation};
  std::vector<core::ParameterSpec> specs;
  layers::declare_head(settings, specs);
  test::Arenas arenas;
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, arenas.memory());
  test::PlainParameters parameters = test::random_parameters(store, 7);
  const auto products = ops::make_matrix_product(test::independent_products());
  const auto attention = ops::make_attention();
  layers::Engine engine{*products, *attention};
  const auto head = layers::make_head(settings, store);
  for (const layers::LinearWeight& weight : head->linear_weights()) {
    products->reserve(weight.extents({.tokens = 2 * rows, .selected = rows}));
  }
  core::Workspace workspace;
  const auto saved = head->make_saved();
  head->allocate_saved(workspace, {rows, 2 * rows}, *saved);
  workspace.allocate();
  head->allocate_saved(workspace, {rows, 2 * rows}, *saved);

  const std::vector<std::int32_t> classes = {2, 0, 0, 1};
  test::HostBatch batch(std::vector<std::int32_t>(2 * rows, 1), std::vector<std::int32_t>(2 * rows, 0), {1, 2, 4, 1});
  batch.set_classes(classes);
  batch.set_masked({0, 2, 3, 6}, classes);
  const core::MicroBatch view = batch.view(of_tokens);
  const layers::StepContext context{.batch = view, .training = true};
  const test::Matrix x = test::Matrix::random(rows, hidden, 3);
  Grid plain_x(x.host());
  test::Matrix d_x(rows, hidden);

  head->forward(engine, context, x, *saved);
  const Grid logits = plain_logits(settings, parameters, plain_x);
  const std::vector<float> ours = test::floats_of(saved->logits);
  CHECK(relative_difference({ours.data(), rows, outputs}, logits) < result_tolerance);

  constexpr float scale = 0.25f;
  layers::apply_loss(settings.kind.loss, *head, context, scale, {}, *saved);
  const std::vector<double> losses = plain_losses(logits, classes);
  const std::vector<float> row_losses = test::copy_of(saved->row_losses.data, rows);
  for (std::size_t r = 0; r < losses.size(); ++r) CHECK(std::abs(row_losses[r] - losses[r]) < result_tolerance);

  head->backward_input(engine, context, *saved, d_x);
  head->backward_weight(engine, *saved, x);
  const auto objective = [&] {
    double sum = 0;
    for (const double loss : plain_losses(plain_logits(settings, parameters, plain_x), classes)) sum += scale * loss;
    return sum;
  };
  CHECK(derivative_difference(std::as_const(d_x).host(), plain_x, objective) < gradient_tolerance);
  for (auto& [name, values] : parameters) {
    INFO(name);
    CHECK(derivative_difference(store.gradient(store.find(name)), values, objective) < gradient_tolerance);
  }
}

TEST_CASE("A head predicts the first of the largest logits", "[layers][head]") {
  const HeadSettings settings{.kind = test::classification_head, .hidden = hidden, .outputs = outputs};
  std::vector<core::ParameterSpec> specs;
  layers::declare_head(settings, specs);
  const core::ParameterStore store(specs, core::ParameterStore::Arenas::values);
  const auto head = layers::make_head(settings, store);
  const auto saved = head->make_saved();
  test::Matrix logits(rows, outputs);
  const float values[rows][outputs] = {{1, 2, 3}, {3, 3, 1}, {-1, -2, -1}, {0, 0, 0}};
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < outputs; ++c) logits(r, c) = values[r][c];
  }
  saved->logits = logits;
  test::Vector<std::int32_t> predicted(rows);
  head->predict(*saved, predicted.data());
  CHECK(predicted == test::Vector<std::int32_t>{2, 0, 0, 0});
}
