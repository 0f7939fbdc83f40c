#include "bert_hpc/objectives/classification.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

const std::vector<std::int32_t> labels = {0, 0, 0, 1, 0, 0, 0, 1};
const std::vector<std::string> names = {"no", "yes"};

objectives::ClassificationSettings settings_with(const config::WordOrNumbers& weights) {
  return {.class_weights = weights};
}

}  // namespace

TEST_CASE("balanced class weights are those of scikit-learn") {
  // compute_class_weight("balanced", classes=[0, 1], y=labels): 8 / (2 * 6) and 8 / (2 * 2)
  const train::LossOptions loss = objectives::training_loss(settings_with({"balanced", {}}), labels, names);
  CHECK(loss.class_weights == std::vector<float>{static_cast<float>(8.0 / 12), 2.0f});
  CHECK(objectives::training_loss_text(loss, names) == "cross entropy; class weights: no 0.6667, yes 2");
}

TEST_CASE("listed class weights get a mean of 1 over the training sequences") {
  // (6 · 1 + 2 · 5) / 8 = 2
  CHECK(objectives::training_loss(settings_with({"", {1, 5}}), labels, names).class_weights ==
        std::vector<float>{0.5f, 2.5f});
  CHECK(objectives::training_loss(settings_with({"", {0, 3}}), labels, names).class_weights ==
        std::vector<float>{0.0f, 4.0f});
}

TEST_CASE("class weights that do not fit the labels are refused") {
  const auto refused = [](const config::WordOrNumbers& weights, const std::vector<std::string>& of, const char* text) {
    CHECK_THROWS_MATCHES(objectives::training_loss(settings_with(weights), labels, of), core::Error,
                         MessageMatches(ContainsSubstring(text)));
  };
  refused({"", {1, 2, 3}}, names,
          "class_weights has 3 numbers, but the training shards have 2 labels: \"no\" and \"yes\"");
  refused({"balanced", {}}, {"no", "yes", "maybe"}, "no training sequence has the label \"maybe\"");
  refused({"", {0, 0}}, names, "the weights of all training sequences are 0");
}

TEST_CASE("the plain cross entropy has no options and no text") {
  const train::LossOptions plain = objectives::training_loss(settings_with({}), labels, names);
  CHECK(plain.class_weights.empty());
  CHECK(plain.label_smoothing == 0);
  CHECK(plain.focal_gamma == 0);
  CHECK(objectives::training_loss_text(plain, names).empty());
  config::Task task;
  task.name = "classification";
  CHECK(objectives::classification_settings(task).focal_gamma == 0);
  task.numbers["label_smoothing"] = 0.1;
  task.numbers["focal_gamma"] = 2;
  const objectives::ClassificationSettings settings = objectives::classification_settings(task);
  CHECK(objectives::training_loss_text(objectives::training_loss(settings, labels, names), names) ==
        "cross entropy; label smoothing 0.1; focal gamma 2");
}
