// How many tokens a micro-batch has where the input does not say.
#include "app/plan/micro_batch_size.hpp"

#include <catch2/catch_test_macros.hpp>
#include <vector>

using namespace bert_hpc;

TEST_CASE("a micro-batch of a GPU has as many tokens as fit, from 4,096 to 65,536") {
  const auto bytes = [](std::int64_t tokens) { return 1'000'000 + 100 * tokens; };
  CHECK(app::largest_micro_tokens(1'000'000'000, bytes) == 65536);
  CHECK(app::largest_micro_tokens(bytes(65536), bytes) == 65536);
  CHECK(app::largest_micro_tokens(bytes(65536) - 1, bytes) == 49152);
  CHECK(app::largest_micro_tokens(bytes(30000), bytes) == 24576);
  CHECK(app::largest_micro_tokens(bytes(8192), bytes) == 8192);
  CHECK(app::largest_micro_tokens(bytes(6144) - 1, bytes) == 4096);
  CHECK(app::largest_micro_tokens(0, bytes) == 4096);  // the plan of memory says what is missing
  std::vector<std::int64_t> tried;
  app::largest_micro_tokens(0, [&](std::int64_t tokens) {
    tried.push_back(tokens);
    return tokens;
  });
  CHECK(tried == std::vector<std::int64_t>{65536, 49152, 32768, 24576, 16384, 12288, 8192, 6144});
}

TEST_CASE("within a budget a micro-batch has as many tokens as fit, from one sequence on") {
  const auto bytes = [](std::int64_t tokens) { return 1'000'000 + 100 * tokens; };
  CHECK_FALSE(app::most_tokens_within(bytes(100) - 1, 100, bytes));
  CHECK(app::most_tokens_within(bytes(100), 100, bytes) == 100);
  CHECK(app::most_tokens_within(bytes(127), 100, bytes) == 100);
  CHECK(app::most_tokens_within(bytes(128), 100, bytes) == 128);
  CHECK(app::most_tokens_within(bytes(10'000), 100, bytes) == 9984);
  CHECK(app::most_tokens_within(bytes(1'000'000), 100, bytes) == 65536);
}
