// Label names of two lists that mean the same.
#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/data/name_match.hpp"

using bert_hpc::data::match_names;
using Names = std::vector<std::string>;
using Indices = std::vector<std::int64_t>;

TEST_CASE("names match in any order, and fewer names match more") {
  const auto match = match_names({"c", "a", "b"}, {"a", "b", "c"});
  REQUIRE(match);
  CHECK(match->indices == Indices{2, 0, 1});
  CHECK(match->exact);
  CHECK_FALSE(match->in_order());
  CHECK(match_names({"b"}, {"a", "b"})->indices == Indices{1});
  CHECK_FALSE(match_names({"a", "b"}, {"a"}));
  CHECK_FALSE(match_names({"a", "d"}, {"a", "b"}));
}

TEST_CASE("names match in another spelling, and numbers those of LABEL_0, LABEL_1, …") {
  const auto match = match_names({"negative", "positive"}, {"Positive", "NEGATIVE "});
  REQUIRE(match);
  CHECK(match->indices == Indices{1, 0});
  CHECK_FALSE(match->exact);
  CHECK(match_names({"LABEL_0", "LABEL_1", "LABEL_10"}, {"1", "0", "10"})->indices == Indices{1, 0, 2});
  CHECK(match_names({"0", "1"}, {"LABEL_0", "LABEL_1"})->in_order());
  CHECK_FALSE(match_names({"1", "2"}, {"LABEL_0", "LABEL_1"}));
  CHECK(match_names({"1.0", "0.0", "10.00"}, {"0", "1", "10"})->indices == Indices{1, 0, 2});
  CHECK_FALSE(match_names({"1.5", "0.", ".0"}, {"0", "1", "1.5"}));
}

TEST_CASE("an exact match comes before one in another spelling") {
  CHECK(match_names({"Positive", "positive", "b"}, {"positive", "Positive", "B"})->indices == Indices{1, 0, 2});
  CHECK(match_names({"US", "us"}, {"us", "US"})->exact);
}

TEST_CASE("a name with several counterparts matches none") {
  CHECK_FALSE(match_names({"positive", "b"}, {"Positive", "POSITIVE", "b"}));
  CHECK_FALSE(match_names({"Positive", "POSITIVE"}, {"positive", "b"}));
  CHECK_FALSE(match_names({"a", "b"}, {"a", "a"}));
}
