// Which labels a run has, and what becomes of a model's classifier, where a model and shards name labels.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "app/engine/model_labels.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "support/vector.hpp"

using namespace bert_hpc;
using namespace bert_hpc::app;
using Catch::Matchers::ContainsSubstring;
using Rows = std::vector<std::int64_t>;

namespace {

const LabelNames own = {"no", "say \"yes\""};

config::Config input(const std::string& mode, const std::string& head = "auto") {
  config::Config config;
  config.run.mode = mode;
  config.model.head = head;
  return config;
}

std::string refusal(const LabelNames& models, const LabelNames& shards) {
  try {
    labels_in_use(input("evaluate"), models, shards);
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::data);
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("the model names the predictions, for any labels of the shards") {
  for (const LabelNames& shards : {LabelNames{}, LabelNames{"-1"}, LabelNames{"a", "b"}, LabelNames{"a", "b", "c"}}) {
    CHECK(labels_in_use(input("predict"), own, shards) == own);
  }
}

TEST_CASE("a note states the classes of a classifier whose outputs have no names") {
  CHECK(unnamed_note({"a", "b"}, {"b", "a"}).empty());
  CHECK_THAT(unnamed_note({"a", "b"}, {"x", "y", "z"}),
             ContainsSubstring("does not name the 3 outputs") &&
                 ContainsSubstring("matched by number: 0 is x, 1 is y, 2 is z"));
}

TEST_CASE("a training is for the shards' labels") {
  CHECK(labels_in_use(input("train"), own, {"a", "b", "c"}) == LabelNames{"a", "b", "c"});
  CHECK(labels_in_use(input("train"), own, {}) == own);
}

TEST_CASE("an evaluation refuses other labels and states how to prepare the model's") {
  CHECK(labels_in_use(input("evaluate"), own, own) == own);
  for (const LabelNames& shards :
       {LabelNames{"maybe"}, LabelNames{"no", "yes"}, LabelNames{"no", "say \"yes\"", "c"}}) {
    CHECK_THAT(refusal(own, shards), ContainsSubstring("[task]\n  labels = [\"no\", \"say \\\"yes\\\"\"]"));
  }
  CHECK_THAT(refusal(own, {"no", "yes"}), ContainsSubstring("head = \"keep\""));
  CHECK(labels_in_use(input("evaluate", "keep"), own, {"no", "yes"}) == LabelNames{"no", "yes"});
}

TEST_CASE("a line that is too long to be copied names its source") {
  LabelNames many = model::default_label_names(1001);
  many[0] = "first";
  const std::string text = refusal(many, {"a"});
  CHECK_THAT(text, ContainsSubstring("id2label"));
  CHECK(text.size() < 1000);
}

TEST_CASE("the rows of a classifier follow names in another order, numbers too") {
  for (const char* mode : {"train", "evaluate"}) {
    for (const LabelNames& names : {LabelNames{"1", "0"}, LabelNames{"2", "0", "1"}, LabelNames{"yes", "no"}}) {
      LabelNames sorted = names;
      std::sort(sorted.begin(), sorted.end());
      CHECK(labels_in_use(input(mode), names, sorted) == sorted);
      const ClassifierUse use = classifier_use(input(mode), names, sorted);
      CHECK_FALSE(use.is_new);
      CHECK_FALSE(use.is_doubtful);
      REQUIRE(use.rows.size() == names.size());
      for (std::size_t i = 0; i < names.size(); ++i) CHECK(names[static_cast<std::size_t>(use.rows[i])] == sorted[i]);
      CHECK_THAT(use.note, ContainsSubstring("in another order") && ContainsSubstring("reordered by name"));
    }
  }
}

TEST_CASE("an evaluation on some of the model's labels keeps the others behind them") {
  const LabelNames model = {"positive", "negative", "neutral"}, shards = {"negative", "positive"};
  const LabelNames used = labels_in_use(input("evaluate"), model, shards);
  CHECK(used == LabelNames{"negative", "positive", "neutral"});
  CHECK(classifier_use(input("evaluate"), model, used).rows == Rows{1, 0, 2});
}

TEST_CASE("names in another spelling match, and a note shows the pairs") {
  const LabelNames model = {"Positive", "Negative"}, shards = {"negative", "positive"};
  CHECK(labels_in_use(input("evaluate"), model, shards) == shards);
  const ClassifierUse use = classifier_use(input("train"), model, shards);
  CHECK(use.rows == Rows{1, 0});
  CHECK_THAT(use.note, ContainsSubstring("order and spelling") && ContainsSubstring("Negative is negative"));
  const ClassifierUse same = classifier_use(input("train"), {"Negative", "Positive"}, shards);
  CHECK(same.rows.empty());
  CHECK_THAT(same.note, ContainsSubstring("in another spelling"));
  // Several of one spelling: these are other names.
  CHECK(classifier_use(input("train"), {"Positive", "POSITIVE"}, {"negative", "positive"}).is_new);
}

TEST_CASE("a training on other labels has a new classifier, unless the input keeps it") {
  const LabelNames model = {"a", "b"}, shards = {"b", "c"};
  const ClassifierUse use = classifier_use(input("train"), model, shards);
  CHECK(use.is_new);
  CHECK(use.is_doubtful);
  CHECK_THAT(use.note, ContainsSubstring("[model] head = \"keep\"") && ContainsSubstring("a is b, b is c"));
  const ClassifierUse kept = classifier_use(input("train", "keep"), model, shards);
  CHECK_FALSE(kept.is_new);
  CHECK(kept.rows.empty());
  CHECK(kept.is_doubtful);
  CHECK(classifier_use(input("train", "new"), model, model).is_new);
  CHECK(classifier_use(input("train", "keep"), model, {"b", "a"}).rows == Rows{1, 0});
}

TEST_CASE("a training on fewer labels than the model has says how to keep its classifier") {
  CHECK_THAT(replaced_classifier(input("train"), {"c", "a", "b"}, {"a", "b"}),
             ContainsSubstring("labels = [\"c\", \"a\", \"b\"]"));
  CHECK(replaced_classifier(input("train"), {"c", "a", "b"}, {"a", "d"}).empty());
  CHECK(replaced_classifier(input("train"), {"a", "b"}, {"a", "b", "c"}).empty());
  CHECK(replaced_classifier(input("train"), model::default_label_names(3), {"0", "1"}).empty());
}

TEST_CASE("a model without names takes the shards' labels by number, and a note says so") {
  const LabelNames nameless = model::default_label_names(12),
                   twelve{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"},
                   words{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
  CHECK(labels_in_use(input("evaluate"), nameless, twelve) == twelve);
  CHECK(labels_in_use(input("evaluate"), nameless, words) == words);
  CHECK_FALSE(classifier_use(input("train"), nameless, twelve).is_doubtful);
  const ClassifierUse use = classifier_use(input("train"), nameless, words);
  CHECK_FALSE(use.is_new);
  CHECK(use.is_doubtful);
  CHECK_THAT(use.note, ContainsSubstring("LABEL_0 is a, LABEL_1 is b") && ContainsSubstring("LABEL_7 is h, …") &&
                           !ContainsSubstring("LABEL_8") && ContainsSubstring("head = \"new\""));
  CHECK(classifier_use(input("train"), nameless, nameless).note.empty());
  CHECK_THAT(refusal(nameless, {"a", "b"}), ContainsSubstring("2 labels") &&
                                                ContainsSubstring("the model has 12 unnamed classes") &&
                                                !ContainsSubstring("LABEL_0"));
}

TEST_CASE("an evaluation takes shards of numbers for the model's labels") {
  const LabelNames three = {"no", "maybe", "yes"};
  CHECK(labels_in_use(input("evaluate"), three, {"0", "1", "2"}) == three);
  CHECK(labels_in_use(input("evaluate"), three, {"0", "1"}) == three);  // the text has none of the last
  CHECK_FALSE(classifier_use(input("train"), three, {"0", "1", "2"}).is_new);
  CHECK_THAT(numbers_note(three, {"0", "1"}), ContainsSubstring("no is 0, maybe is 1"));
  CHECK(numbers_note(three, {"no", "maybe"}).empty());
  // Not the indices of a list that has no 0, or more than the model.
  for (const LabelNames& shards : {LabelNames{"1", "2"}, LabelNames{"0", "1", "2", "3"}}) {
    CHECK_THAT(refusal(three, shards), ContainsSubstring("labels = [\"0\", \"1\", \"2\"]"));
  }
}

TEST_CASE("the rows of a classifier and of its bias are reordered, and no other parameter") {
  core::ParameterStore store({{"classifier.weight", {3, 2}}, {"classifier.bias", {3}, false}, {"dense.weight", {3, 2}}},
                             core::ParameterStore::Arenas::values);
  const auto values_of = [&store](const char* name) {
    const core::Tensor<const float> value = store.value(store.find(name));
    return test::copy_of(value.data, value.size());
  };
  for (const core::ParameterSlice& slice : store.slices()) {
    const std::vector<float> numbers = {0, 1, 2, 3, 4, 5};
    core::copy_to_device<float>(
        std::span(numbers).first(static_cast<std::size_t>(slice.size)),
        store.change_values().subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size)));
  }
  reorder_rows("classifier", {2, 0, 1}, store);
  CHECK(values_of("classifier.weight") == std::vector<float>{4, 5, 0, 1, 2, 3});
  CHECK(values_of("classifier.bias") == std::vector<float>{2, 0, 1});
  CHECK(values_of("dense.weight") == std::vector<float>{0, 1, 2, 3, 4, 5});
}
