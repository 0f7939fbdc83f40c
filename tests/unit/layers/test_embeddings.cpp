// The encoder's input against plain loops in double precision and central differences of these: words that repeat,
// types or none, positions that begin after the row of padding, token dropout, and embeddings of other columns than the
// encoder, with a linear layer behind.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <vector>

#include "bert_hpc/layers/embeddings.hpp"
#include "bert_hpc/layers/projected_embeddings.hpp"
#include "plain_layers.hpp"
#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::Grid;

namespace {

constexpr std::int64_t hidden = 16, vocabulary = 11, positions = 6, tokens = 8;
const std::vector<std::int32_t> ids = {1, 7, 7, 3, 1, 10, 7, 4}, types = {0, 0, 1, 0, 0, 1, 1, 0}, lengths = {3, 5};

Grid plain_embeddings(const layers::EmbeddingsSettings& settings, const test::PlainParameters& parameters) {
  Grid sum(tokens, hidden);
  std::int64_t position = 0;
  for (std::int64_t t = 0; t < tokens; ++t, ++position) {
    if (t == lengths[0]) position = 0;
    const std::int32_t id = ids[static_cast<std::size_t>(t)];
    // Two of three tokens of the first sequence are 7, and one of five of the second.
    const double unmasked = t < lengths[0] ? 1.0 / 3 : 4.0 / 5;
    const double factor = !settings.token_dropout ? 1 : id == 7 ? 0 : settings.token_dropout.kept / unmasked;
    for (std::int64_t c = 0; c < hidden; ++c) {
      sum(t, c) = factor * parameters.at("word.weight")(id, c) +
                  parameters.at("position.weight")(settings.first_position + position, c);
      if (settings.types > 0) sum(t, c) += parameters.at("type.weight")(types[static_cast<std::size_t>(t)], c);
    }
  }
  return plain_norm(std::move(sum), parameters, settings.layer_norm_epsilon);
}

/// Compares an input's result and gradients with those of `plain`; tolerances are relative.
void check_input(const layers::InputKind& kind, const std::function<Grid(const test::PlainParameters&)>& plain,
                 double tolerance, double gradient_tolerance) {
  std::vector<core::ParameterSpec> specs;
  kind.declare(specs, {});
  test::Arenas arenas;
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, arenas.memory());
  test::PlainParameters parameters = test::random_parameters(store, 7);
  const auto input = kind.make(store, {}, core::DataType::fp32);
  core::Workspace workspace;
  const auto of_micro_batch = input->make_saved();
  layers::Input::SavedActivations& saved = *of_micro_batch;
  input->allocate_saved(workspace, tokens, saved);
  workspace.allocate();
  input->allocate_saved(workspace, tokens, saved);
  const test::HostBatch batch(ids, types, lengths);
  const core::MicroBatch view = batch.view();
  const layers::StepContext context{.batch = view, .training = true};
  const auto products = ops::make_matrix_product(test::independent_products());
  const auto attention = ops::make_attention();
  layers::Engine engine{*products, *attention};
  for (const layers::LinearWeight& weight : input->linear_weights()) products->reserve(weight.extents({.tokens = 8}));

  input->forward(engine, context, saved);
  const Grid expected = plain(parameters);
  const std::vector<float> y = test::floats_of(saved.output);
  CHECK(relative_difference({y.data(), tokens, kind.hidden()}, expected) < tolerance);

  test::Matrix d_y = test::Matrix::random(tokens, kind.hidden(), 4);
  const Grid plain_d_y(std::as_const(d_y).host());
  input->backward_weight(engine, context, saved, layers::StreamGradient(d_y));
  const auto objective = [&] { return plain_dot(plain(parameters), plain_d_y); };
  for (auto& [name, values] : parameters) {
    INFO(name);
    CHECK(derivative_difference(store.gradient(store.find(name)), values, objective) < gradient_tolerance);
  }
}

}  // namespace

TEST_CASE("Embeddings and their gradients are those of plain loops", "[layers][embeddings]") {
  const std::int64_t type_rows = GENERATE(0, 2), first_position = GENERATE(0, 2);
  const bool lookup_only = GENERATE(false, true), drops_tokens = GENERATE(false, true);
  INFO(type_rows << " types, first position " << first_position << ", look-ups alone " << lookup_only
                 << ", token dropout " << drops_tokens);
  const layers::EmbeddingsSettings settings{.vocabulary = vocabulary,
                                            .positions = positions,
                                            .types = type_rows,
                                            .hidden = hidden,
                                            .first_position = first_position,
                                            .hidden_dropout = 0,
                                            .token_dropout = {drops_tokens ? 7 : -1, 0.88f},
                                            .lookup_only = lookup_only};
  // Three sums, a factor and a norm: about 10 roundings of 6e-8, elements up to 3. In gradients rows are divided by
  // their standard deviation of about a half: twice as far as a sublayer's would be.
  check_input(
      *layers::token_embeddings(settings),
      [&](const test::PlainParameters& parameters) { return plain_embeddings(settings, parameters); }, 2e-6, 8e-6);
}

TEST_CASE("Projected embeddings and their gradients are those of plain loops", "[layers][embeddings]") {
  const std::int64_t columns = GENERATE(5, 24);
  INFO(columns << " columns of " << hidden << " embeddings");
  const layers::EmbeddingsSettings settings{
      .vocabulary = vocabulary, .positions = positions, .types = 2, .hidden = hidden, .hidden_dropout = 0};
  const auto kind = layers::projected_embeddings(settings, "project", columns);
  CHECK(kind->hidden() == columns);
  CHECK(kind->most_columns() == std::max(columns, hidden));
  CHECK(kind->looked_up() == vocabulary);
  // A product of 16 terms more: about twice as far.
  check_input(
      *kind,
      [&](const test::PlainParameters& parameters) {
        return plain_linear(plain_embeddings(settings, parameters), parameters, "project");
      },
      4e-6, 1.6e-5);
}
