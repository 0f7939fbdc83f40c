// Keys of a resolved input as a flat list.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/config/parse_toml.hpp"

using namespace bert_hpc;

TEST_CASE("keys of tables in tables become dotted names with values as TOML") {
  const auto keys = config::flat_keys(
      "[run]\nreproducible = true\n\n[batch]\nglobal = 32\n\n[optimizer]\nlearning_rate = 3e-05\n\n"
      "[data]\ntrain = [\"a = [b].h5\", \"c\"]\n\n[a.b]\nname = \"say \\\"yes\\\"\"\n");
  const std::vector<std::pair<std::string, std::string>> expected = {{"a.b.name", "\"say \\\"yes\\\"\""},
                                                                     {"batch.global", "32"},
                                                                     {"data.train", "[\"a = [b].h5\", \"c\"]"},
                                                                     {"optimizer.learning_rate", "3e-05"},
                                                                     {"run.reproducible", "true"}};
  CHECK(keys == expected);
}

TEST_CASE("a text that is not TOML has no keys") {
  CHECK(config::flat_keys("[run\n").empty());
}
