// The encoder's input against plain loops in double precision and central differences of these: words that repeat,
// types or none, positions that begin after the row of padding, token dropout.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <vector>

#include "bert_hpc/layers/embeddings.hpp"
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
  std::vector<core::ParameterSpec> specs;
  layers::Embeddings::declare(settings, specs);
  test::Arenas arenas;
  core::ParameterStore store(specs, core::ParameterStore::Arenas::with_gradients, {}, arenas.memory());
  test::PlainParameters parameters = test::random_parameters(store, 7);
  const layers::Embeddings embeddings(settings, store);
  core::Workspace workspace;
  const auto of_micro_batch = embeddings.make_saved();
  layers::Input::SavedActivations& saved = *of_micro_batch;
  embeddings.allocate_saved(workspace, tokens, saved);
  workspace.allocate();
  embeddings.allocate_saved(workspace, tokens, saved);
  const test::HostBatch batch(ids, types, lengths);
  const core::MicroBatch view = batch.view();
  const layers::StepContext context{.batch = view, .training = true};

  embeddings.forward(context, saved);
  // Three sums, a factor and a norm: about 10 roundings of 6e-8, elements up to 3.
  const Grid expected = plain_embeddings(settings, parameters);
  const std::vector<float> y = test::floats_of(saved.output);
  CHECK(relative_difference({y.data(), tokens, hidden}, expected) < 2e-6);

  test::Matrix d_y = test::Matrix::random(tokens, hidden, 4);
  const Grid plain_d_y(std::as_const(d_y).host());
  embeddings.backward_weight(context, saved, layers::StreamGradient(d_y));
  const auto objective = [&] { return plain_dot(plain_embeddings(settings, parameters), plain_d_y); };
  for (auto& [name, values] : parameters) {
    INFO(name);
    // Rows are divided by their standard deviation of about a half: twice as far as a sublayer's would be.
    CHECK(derivative_difference(store.gradient(store.find(name)), values, objective) < 8e-6);
  }
}
