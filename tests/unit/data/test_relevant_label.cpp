#include <catch2/catch_test_macros.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/data/relevant_label.hpp"

using bert_hpc::data::relevant_label;
using Names = std::vector<std::string>;

TEST_CASE("names of two labels tell which one means relevant") {
  for (const Names& names :
       {Names{"relevant", "irrelevant"}, Names{"entailment", "not_entailment"}, Names{"Yes", "No"}, Names{"1", "0"},
        Names{"LABEL_1", "LABEL_0"}, Names{"True", "False"}, Names{"POSITIVE", "NEGATIVE"},
        Names{"duplicate", "unique"}, Names{"passage", "not relevant"}, Names{"Relevant", "Non-Relevant"},
        Names{"ENTAILMENT", "contradiction"}, Names{"similar", "dissimilar"}, Names{"equivalent", "not_equivalent"}}) {
    CAPTURE(names);
    CHECK(relevant_label(names) == 0);
    CHECK(relevant_label({names[1], names[0]}) == 1);
  }
  CHECK(relevant_label({"LABEL_0", "LABEL_1"}) == 1);
  CHECK(relevant_label({"1", "2"}) == 1);
}

TEST_CASE("other names do not tell which label means relevant") {
  for (const Names& names : {Names{"a", "b"}, Names{"relevant", "RELEVANT"}, Names{"first", "second"}, Names{"yes"},
                             Names{}, Names{"entailment", "neutral", "contradiction"}}) {
    CAPTURE(names);
    CHECK(relevant_label(names) == std::nullopt);
  }
}
