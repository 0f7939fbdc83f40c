#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string_view>

#include "bert_hpc/tasks/task.hpp"

using namespace bert_hpc;

TEST_CASE("tasks are found by name") {
  for (const tasks::Task* task : tasks::all()) CHECK(tasks::find(task->name) == task);
  CHECK(tasks::find("Classification") == nullptr);
  CHECK(tasks::names() == std::vector<std::string>{"classification", "multi_label", "regression",
                                                   "token_classification", "question_answering", "answer_ranking",
                                                   "masked_lm"});
}

TEST_CASE("no key belongs to two tasks, and keys come by name") {
  std::set<std::string> seen;
  std::string before;
  for (const auto& [key, task] : tasks::keys()) {
    CHECK(seen.insert(key.name).second);
    CHECK(before < key.name);
    before = key.name;
  }
  CHECK(seen.contains(tasks::mask_probability_key));
  CHECK(seen.contains(tasks::standardize_key));
  CHECK(seen.contains(tasks::class_weights_key));
}
