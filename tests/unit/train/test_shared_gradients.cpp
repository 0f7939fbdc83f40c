#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/train/shared_gradients.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;

namespace {

/// A table with two copies, beside parameters of one use, and a decoder that is a copy of the embeddings.
std::vector<core::ParameterSpec> specs() {
  return {{.name = "words", .shape = {4, 8}},
          {.name = "table", .shape = {2, 24}},
          {.name = "weight", .shape = {16}},
          {.name = "second", .shape = {2, 24}, .copy_of = "table"},
          {.name = "third", .shape = {2, 24}, .copy_of = "table"},
          {.name = "decoder", .shape = {4, 8}, .copy_of = "words"}};
}

}  // namespace

TEST_CASE("parameters are shared if they have trained copies, but for the tied embeddings") {
  std::vector<core::ParameterSpec> model = specs();
  CHECK(train::shared_parameters(model, "words") == std::vector<std::string>{"table"});
  CHECK(train::shared_parameters(model, "") == std::vector<std::string>{"table", "words"});
  for (core::ParameterSpec& spec : model) spec.trainable = spec.name == "weight";
  CHECK(train::shared_parameters(model, "words").empty());
}

TEST_CASE("copies get the sum of all copies' gradients, whatever the pieces") {
  const auto alone = comm::make_self_communicator();
  core::ParameterStore store(specs(), core::ParameterStore::Arenas::with_gradients);
  const std::span<float> gradients = store.gradients();
  std::vector<float> expected(gradients.size());
  test::Vector<float> values(gradients.size());
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = expected[i] = static_cast<float>(i % 37) - 11.0f;
  const auto offset = [&](const char* name) {
    return static_cast<std::size_t>(store.slices()[static_cast<std::size_t>(store.find(name))].offset);
  };
  for (std::size_t i = 0; i < 48; ++i) {
    const float sum = (values[offset("table") + i] + values[offset("second") + i]) + values[offset("third") + i];
    for (const char* copy : {"table", "second", "third"}) expected[offset(copy) + i] = sum;
  }
  CHECK(train::exchanged_bytes(specs(), {"table"}) == 3 * 48 * 4);
  const bool all_here = GENERATE(false, true);
  train::SharedGradients shared(store, specs(), {"table"}, *alone, {.all_here = all_here});
  std::vector<train::OwnedRange> pieces;
  const std::int64_t whole = std::ssize(gradients), most = GENERATE(40, 1000);  // elements of a piece
  for (std::int64_t begin = 0; begin < whole; begin += most) {
    const std::int64_t size = std::min(most, whole - begin);
    pieces.push_back({begin, size, values.data() + begin});
  }
  shared.add(pieces);
  CHECK(std::vector<float>(values.begin(), values.end()) == expected);
}

TEST_CASE("the first rank of a tensor group gives what all of its ranks have") {
  const auto alone = comm::make_self_communicator();
  core::ParameterStore store(specs(), core::ParameterStore::Arenas::with_gradients);
  for (const int rank : {0, 1}) {
    const std::span<float> gradients = store.gradients();
    std::fill(gradients.begin(), gradients.end(), 1.0f);
    train::SharedGradients shared(store, specs(), {"table"}, *alone, {.tensor_rank = rank});
    const train::OwnedRange all{0, std::ssize(gradients), gradients.data()};
    shared.add({&all, 1});
    const core::Tensor<float> table = store.gradient(store.find("second"));
    CHECK(table(0, 0) == (rank == 0 ? 3.0f : 0.0f));  // the sum over ranks brings it to the others
  }
}
