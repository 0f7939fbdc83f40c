#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/objectives/one_answer.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

TEST_CASE("a warning about one answer names the finding, its likely causes, and the keys to change") {
  const metrics::OneAnswer value{
      .samples = 1140, .value = 6.234, .spread = 0.0006, .label_mean = 6.5, .label_spread = 1.084};
  config::Config input;
  input.task.name = "regression";
  input.optimizer.learning_rate = 5e-5;
  const std::string raw = objectives::one_answer_in_training("validation", value, {"LABEL_0"}, input, 1234);
  CHECK_THAT(raw, ContainsSubstring("validation: the predictions for all 1,140 sequences are nearly one value, 6.234 ± "
                                    "0.0006, but the labels are 6.5 ± 1.084."));
  for (const char* part :
       {"1,234 so far", "schedule.epochs", "optimizer.learning_rate = 5e-05", "set task.standardize = true"}) {
    CHECK_THAT(raw, ContainsSubstring(part));
  }
  input.task.switches["standardize"] = true;
  CHECK_THAT(objectives::one_answer_in_training("test", value, {}, input, 1), !ContainsSubstring("standardize"));

  const metrics::OneAnswer one_class{.samples = 75, .value = 1, .label_classes = 2};
  input.task.name = "classification";
  const std::string text = objectives::one_answer_in_training("validation", one_class, {"no", "yes"}, input, 9);
  CHECK_THAT(text, ContainsSubstring("the model predicts the class \"yes\" for all 75 sequences, but the labels have 2 "
                                     "classes."));
  CHECK_THAT(text, ContainsSubstring("nearly all of the data") && !ContainsSubstring("±"));

  const metrics::OneAnswer none{.samples = 1200, .answerable = 400};
  input.task.name = "question_answering";
  CHECK_THAT(objectives::one_answer_in_training("validation", none, {}, input, 9),
             ContainsSubstring("validation: the model answers none of the 1,200 questions, but 400 have an answer") &&
                 ContainsSubstring("null_threshold") && !ContainsSubstring("class"));
  CHECK_THAT(objectives::one_answer_in_evaluation("test", none, {}, "question_answering"),
             ContainsSubstring("answers none of the 1,200 questions") && !ContainsSubstring("scale"));

  // A model that is there cannot be trained by changing keys of an evaluation.
  const std::string evaluated =
      objectives::one_answer_in_evaluation("test", one_class, {"no", "yes"}, "classification");
  CHECK_THAT(evaluated, ContainsSubstring("test: the model predicts the class \"yes\"") &&
                            ContainsSubstring("trained for too few steps") && !ContainsSubstring("schedule."));
  const std::string tagged =
      objectives::one_answer_in_evaluation("test", one_class, {"B", "O"}, "token_classification");
  CHECK_THAT(tagged, ContainsSubstring("predicts the class \"O\" for all 75 words"));
}
