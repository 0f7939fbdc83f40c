// Which labels count where a model and the shards name some.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/app/engine/model_labels.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/model_config.hpp"

using namespace bert_hpc;
using namespace bert_hpc::app;
using Catch::Matchers::ContainsSubstring;

namespace {

const LabelNames own = {"no", "say \"yes\""};

std::string refusal(const LabelNames& models, const LabelNames& shards) {
  try {
    labels_in_use("evaluate", models, shards);
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::data);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the model names the predictions, for any labels of the shards") {
  for (const LabelNames& shards : {LabelNames{}, LabelNames{"-1"}, LabelNames{"a", "b"}, LabelNames{"a", "b", "c"}}) {
    CHECK(labels_in_use("predict", own, shards) == own);
  }
}

TEST_CASE("a training is for the shards' labels") {
  CHECK(labels_in_use("train", own, {"a", "b", "c"}) == LabelNames{"a", "b", "c"});
  CHECK(labels_in_use("train", own, {}) == own);
}

TEST_CASE("an evaluation refuses other labels and states how to prepare the model's") {
  CHECK(labels_in_use("evaluate", own, own) == own);
  for (const LabelNames& shards : {LabelNames{"no"}, LabelNames{"no", "yes"}, LabelNames{"say \"yes\"", "no"}}) {
    CHECK_THAT(refusal(own, shards), ContainsSubstring("[task]\n  labels = [\"no\", \"say \\\"yes\\\"\"]"));
  }
}

TEST_CASE("a line that is too long to be copied names its source") {
  LabelNames many = model::default_label_names(1001);
  many[0] = "first";
  const std::string text = refusal(many, {"a"});
  CHECK_THAT(text, ContainsSubstring("id2label"));
  CHECK(text.size() < 1000);
}

TEST_CASE("the same names in another order are refused, numbers too") {
  for (const LabelNames& names : {LabelNames{"1", "0"}, LabelNames{"2", "0", "1"}, LabelNames{"no", "yes"}}) {
    LabelNames sorted = names;
    std::sort(sorted.begin(), sorted.end());
    if (sorted == names) std::reverse(sorted.begin(), sorted.end());
    const std::string text = refusal(names, sorted);
    CHECK_THAT(text, ContainsSubstring("the same in another order") &&
                         ContainsSubstring("labels = [\"" + names[0] + "\", \"" + names[1] + "\""));
    CHECK_THAT(labels_note(names, sorted), ContainsSubstring("in another order") && ContainsSubstring("labels = ["));
  }
}

TEST_CASE("a model without names takes the shards' labels by number, and a note says so") {
  const LabelNames nameless = model::default_label_names(12),
                   twelve{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"};
  CHECK(labels_in_use("evaluate", nameless, twelve) == twelve);
  CHECK_THAT(labels_note(nameless, twelve), ContainsSubstring("LABEL_0 is 0, LABEL_1 is 1") &&
                                                ContainsSubstring("LABEL_7 is 7, …") && !ContainsSubstring("LABEL_8"));
  CHECK(labels_note(nameless, nameless).empty());
  CHECK(labels_note(nameless, {}).empty());
  CHECK_THAT(refusal(nameless, {"a", "b"}), ContainsSubstring("2 labels") &&
                                                ContainsSubstring("the model has 12 unnamed classes") &&
                                                !ContainsSubstring("LABEL_0"));
}

TEST_CASE("an evaluation takes shards of numbers for the model's labels, and a note says so") {
  const LabelNames three = {"no", "maybe", "yes"};
  CHECK(labels_in_use("evaluate", three, {"0", "1", "2"}) == three);
  CHECK(labels_in_use("evaluate", three, {"0", "1"}) == three);  // the text has none of the last
  CHECK_THAT(labels_note(three, {"0", "1"}), ContainsSubstring("no is 0, maybe is 1"));
  // Not the places of a list that has no 0, or more than the model.
  for (const LabelNames& shards : {LabelNames{"1", "2"}, LabelNames{"0", "1", "2", "3"}}) {
    CHECK_THAT(refusal(three, shards), ContainsSubstring("labels = [\"0\", \"1\", \"2\"]"));
  }
}
