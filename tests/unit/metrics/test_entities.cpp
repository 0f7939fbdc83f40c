// Entities of tags, and the metrics that are made of them. conlleval's and seqeval's own numbers are compared in
// tests/unit/score.
#include "bert_hpc/metrics/entities.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "bert_hpc/metrics/registry.hpp"

using namespace bert_hpc::metrics;

namespace {

using Names = std::vector<std::string>;

std::vector<Tag> tags(const Names& names) {
  std::vector<Tag> all;
  for (const std::string& name : names) all.push_back(parse_tag(name).value());
  return all;
}

}  // namespace

TEST_CASE("tags have a letter and a type") {
  CHECK(parse_tag("O") == Tag{});
  CHECK(parse_tag("B-a-b") == Tag{'B', "a-b"});
  CHECK(parse_tag("S") == Tag{'S', "_"});
  for (const char* other : {"", "NOUN", "B_X", "X-PER", "B-", "OO", "-"}) CHECK_FALSE(parse_tag(other).has_value());
}

TEST_CASE("BILOU and BMEWO are read as BIOES") {
  CHECK(tags({"B-A", "I-A", "L-A", "O", "U-A"}) == tags({"B-A", "I-A", "E-A", "O", "S-A"}));
  CHECK(tags({"B-A", "M-A", "E-A", "O", "W-A"}) == tags({"B-A", "I-A", "E-A", "O", "S-A"}));
  CHECK(entity_types({"O", "B-PER", "I-PER", "L-PER", "U-LOC"}) == Names{"LOC", "PER"});
}

TEST_CASE("types are those that all tags name") {
  CHECK(entity_types({"O", "I-PER", "B-LOC", "B-PER"}) == Names{"LOC", "PER"});
  CHECK(entity_types({"O", "B-PER", "NOUN"}).empty());
}

TEST_CASE("an entity counts where first token, last token and type agree") {
  CountsByType counts;
  const Names gold = {"B-A", "I-A", "O", "B-B", "B-B", "O", "I-A"},
              found = {"B-A", "I-A", "I-A", "B-B", "I-B", "O", "B-A"};
  count_entities(tags(gold), tags(found), counts);
  CHECK(counts["A"].gold == 2);
  CHECK(counts["A"].found == 2);
  CHECK(counts["A"].correct == 1);
  CHECK(counts["B"].gold == 2);
  CHECK(counts["B"].found == 1);
  CHECK(counts["B"].correct == 0);
}

TEST_CASE("metrics of entities are made of the sums of all types and of each") {
  const Names types = {"A", "B"};
  Evaluation evaluation({&entities()}, {.outputs = 5, .entity_types = 2});
  CountsByType counts;
  counts["B"] = {.gold = 4, .found = 2, .correct = 1};
  counts["A"] = {.gold = 1, .found = 2, .correct = 1};
  add_entities(counts, types, evaluation.sums_of(entities()));
  const auto values = evaluation.values();
  REQUIRE(values.size() == 3);
  CHECK(values[0].first == "entity_precision");
  CHECK(values[0].second == 0.5);
  CHECK(std::abs(values[1].second - 0.4) < 1e-15);
  CHECK(std::abs(values[2].second - 4.0 / 9) < 1e-15);
  CHECK(evaluation.type_counts() == std::vector<std::int64_t>{1, 4, 2, 2, 1, 1});
}

TEST_CASE("labels that are no tags have no entities") {
  Evaluation evaluation({&entities()}, {.outputs = 5});
  CHECK(evaluation.sums_of(entities()).empty());
  CHECK(std::isnan(evaluation.values()[0].second));
  CHECK(evaluation.type_counts().empty());
}
