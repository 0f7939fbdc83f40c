// The memory of a node for tokens.
#include <catch2/catch_test_macros.hpp>

#include "app/engine/data_sets.hpp"

using namespace bert_hpc;

TEST_CASE("tokens get a quarter of a node's memory, or what [data] cache says") {
  config::Data data;
  constexpr std::int64_t gib = std::int64_t{1} << 30;
  CHECK(app::token_budget(data, 16 * gib, 3).node == 4 * gib);
  CHECK(app::token_budget(data, 16 * gib, 3).ranks == 3);
  CHECK(app::token_budget(data, 0, 1).node == 2 * gib);  // the system does not say
  data.cache = {5e9};
  CHECK(app::token_budget(data, 16 * gib, 1).node == 5'000'000'000);
  data.cache = {1e300};
  CHECK(app::token_budget(data, 16 * gib, 1).node == 1'000'000'000'000'000'000);
}
