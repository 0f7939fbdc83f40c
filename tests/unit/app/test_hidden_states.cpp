// Choice of the hidden states that are compared, and the cut of the teacher that puts both of a pair on one rank.
#include "app/engine/hidden_states.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;

namespace {

using Counts = std::vector<std::int64_t>;

/// Pairs for a map of blocks, each of two sublayers, and for the embeddings.
std::vector<train::StatePair> pairs_of(const Counts& map) {
  std::vector<train::StatePair> pairs = {{0, 0, {.squares = 1}}};
  for (std::size_t i = 0; i < map.size(); ++i) {
    pairs.push_back({2 * (static_cast<std::int64_t>(i) + 1), 2 * (map[i] + 1), {.squares = 1}});
  }
  return pairs;
}

/// The part that computes an edge.
std::size_t part_of(std::int64_t edge, const Counts& balance) {
  std::int64_t end = 0;
  for (std::size_t p = 0; p < balance.size(); ++p) {
    end += balance[p];
    if (edge <= end) return p;
  }
  return balance.size();
}

}  // namespace

TEST_CASE("an even layer map ends in the teacher's last block") {
  CHECK(app::even_layer_map(4, 12) == Counts{2, 5, 8, 11});
  CHECK(app::even_layer_map(6, 12) == Counts{1, 3, 5, 7, 9, 11});
  CHECK(app::even_layer_map(5, 12) == Counts{2, 4, 7, 9, 11});
  CHECK(app::even_layer_map(3, 3) == Counts{0, 1, 2});
  CHECK(app::even_layer_map(3, 2) == Counts{0, 1, 1});
}

TEST_CASE("the cut of a teacher puts both states of a pair on one rank") {
  const Counts student = GENERATE(Counts{6, 6}, Counts{1, 11}, Counts{11, 1}, Counts{3, 1, 8}, Counts{1, 1, 1, 1, 8});
  const Counts map = GENERATE(Counts{1, 3, 5, 7, 9, 11}, Counts{0, 1, 2, 3, 4, 11}, Counts{0, 7, 8, 9, 10, 11});
  Counts teacher(student.size(), 24 / std::ssize(student));
  teacher.back() += 24 % std::ssize(student);
  const std::vector<train::StatePair> pairs = pairs_of(map);
  const Counts balance = app::aligned_balance(pairs, student, teacher);
  std::int64_t sublayers = 0;
  for (const std::int64_t count : balance) {
    CHECK(count > 0);
    sublayers += count;
  }
  CHECK(sublayers == 24);
  for (const train::StatePair& pair : pairs) {
    CHECK(part_of(pair.student, student) == part_of(pair.teacher, balance));
  }
}

TEST_CASE("without pairs a teacher's cut stays, and a map that does not ascend has none") {
  CHECK(app::aligned_balance({}, Counts{4, 8}, Counts{5, 19}) == Counts{5, 19});
  const std::vector<train::StatePair> pairs = pairs_of({3, 1});
  CHECK(app::aligned_balance(pairs, Counts{4}, Counts{8}) == Counts{8});
  CHECK_THROWS_AS(app::aligned_balance(pairs, Counts{2, 2}, Counts{4, 4}), core::Error);
  CHECK_THROWS_AS(app::aligned_balance(pairs_of({1, 1}), Counts{2, 2}, Counts{4, 4}), core::Error);
}
