#include "app/plan/grid_layout.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

model::ModelConfig sized(std::int64_t blocks, std::int64_t heads = 12, std::int64_t intermediate = 3072) {
  model::ModelConfig config;
  config.num_hidden_layers = blocks;
  config.num_attention_heads = heads;
  config.intermediate_size = intermediate;
  return config;
}

config::Config with(const config::Parallel& parallel) {
  config::Config input;
  input.parallel = parallel;
  return input;
}

std::string refusal(const config::Config& input, int ranks, const model::ModelConfig& model) {
  try {
    app::grid_layout(input, ranks, model);
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::input);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the grid of an input file for a model") {
  CHECK(app::grid_layout({}, 8, sized(12)) == comm::GridShape{8, 1, 1});
  CHECK(app::grid_layout(with({.pipeline = 3, .tensor = 2}), 24, sized(12)) == comm::GridShape{4, 3, 2});
  CHECK(app::grid_layout(with({.pipeline = 2, .balance = {5, 7}}), 4, sized(12)) == comm::GridShape{2, 2, 1});
  CHECK(app::grid_layout(with({.data = 1, .pipeline = 0, .balance = {5, 7}}), 2, sized(12)) ==
        comm::GridShape{1, 2, 1});
  CHECK(app::grid_layout(with({.pipeline = 2, .virtual_stages = 3}), 2, sized(12)) == comm::GridShape{1, 2, 1});
}

TEST_CASE("a grid that does not fit the model is refused with grids that fit") {
  CHECK(app::grid_layout(with({.pipeline = 8}), 8, sized(4)) == comm::GridShape{1, 8, 1});  // a half each
  CHECK_THAT(refusal(with({.pipeline = 16}), 16, sized(4)),
             ContainsSubstring("pipeline = 16 is too many: the model can be cut into at most 8 stages") &&
                 ContainsSubstring("data = 2, pipeline = 8, tensor = 1"));
  CHECK_THAT(refusal(with({.tensor = 4}), 4, sized(4, 6)),
             ContainsSubstring("tensor = 4 does not divide the model's 6 attention heads") &&
                 ContainsSubstring("data = 2, pipeline = 1, tensor = 2"));
  CHECK_THAT(refusal(with({.tensor = 4}), 4, sized(4, 12, 1022)),
             ContainsSubstring("tensor = 4 does not divide the model's intermediate_size, 1022"));
  model::ModelConfig few_words = sized(4);
  few_words.vocab_size = 3;
  CHECK_THAT(refusal(with({.tensor = 4}), 4, few_words),
             ContainsSubstring("tensor = 4 exceeds the size of the model's vocabulary, 3") &&
                 ContainsSubstring("data = 2, pipeline = 1, tensor = 2"));
  config::Config reproducible;
  reproducible.run.reproducible = true;
  CHECK_THAT(refusal(reproducible, 6, sized(4)),
             ContainsSubstring("reproducible needs a power of two") && ContainsSubstring("data = 2, pipeline = 3"));
}

TEST_CASE("a balance that does not fit is refused with the nearest one that does") {
  CHECK(refusal(with({.pipeline = 2, .balance = {6, 2}}), 2, sized(4)) ==
        "[parallel] balance = [6, 2] holds 8 blocks, but the model has 4: balance = [3, 1] would fit.");
  CHECK(refusal(with({.pipeline = 2, .balance = {1, 1}}), 2, sized(12)) ==
        "[parallel] balance = [1, 1] holds 2 blocks, but the model has 12: balance = [6, 6] would fit.");
  CHECK(refusal(with({.pipeline = 3, .balance = {1000, 1, 1}}), 3, sized(4)) ==
        "[parallel] balance = [1000, 1, 1] holds 1,002 blocks, but the model has 4: balance = [2, 1, 1] would fit.");
  CHECK(refusal(with({.pipeline = 2, .balance = {6.5, 1}}), 2, sized(4)) ==
        "[parallel] balance = [6.5, 1] holds 7.5 blocks, but the model has 4: balance = [3.5, 0.5] would fit.");
  CHECK(refusal(with({.pipeline = 3, .balance = {1, 1, 1}}), 3, sized(1)).find("the model can be cut into at most") !=
        std::string::npos);
  CHECK(refusal(with({.pipeline = 3, .balance = {1, 1, 1}}), 3, sized(2)) ==
        "[parallel] balance = [1, 1, 1] holds 3 blocks, but the model has 2: balance = [1, 0.5, 0.5] would fit.");
  CHECK(app::grid_layout(with({.pipeline = 2, .balance = {3.5, 0.5}}), 2, sized(4)) == comm::GridShape{1, 2, 1});
  CHECK(refusal(with({.data = 1, .pipeline = 0, .balance = {2, 2}}), 3, sized(4)) ==
        "[parallel] balance = [2, 2] has 2 numbers, but pipeline = 3 needs 3, one for each part of the model: balance "
        "= [2, 1, 1], for example.");
}

TEST_CASE("virtual stages that do not divide the blocks are refused, unless a balance says how to cut") {
  CHECK(refusal(with({.pipeline = 2, .virtual_stages = 3}), 2, sized(8)) ==
        "[parallel] virtual_stages = 3 times pipeline = 2 makes 6 parts, which do not divide the sublayers of the "
        "model's "
        "8 blocks evenly: virtual_stages = 2, 4, 8 would, or say how many blocks each part holds, as in balance = [2, "
        "2, 1, 1, 1, 1].");
  CHECK(refusal(with({.pipeline = 2, .virtual_stages = 3, .balance = {2, 2, 1, 1, 1, 1}}), 2, sized(8)) == "accepted");
  CHECK_THAT(refusal(with({.pipeline = 2, .virtual_stages = 5}), 2, sized(4)),
             ContainsSubstring("the model can be cut into at most 1 stage"));
  CHECK_THAT(refusal(with({.pipeline = 2, .virtual_stages = 9}), 2, sized(4)),
             ContainsSubstring("virtual_stages = 9 is more than the model's 4 blocks can be cut into"));
  CHECK_THAT(refusal(with({.data = 2, .pipeline = 0, .virtual_stages = 2}), 2, sized(4)),
             ContainsSubstring("the ranks make pipeline = 1"));
}
