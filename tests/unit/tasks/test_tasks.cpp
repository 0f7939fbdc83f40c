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

TEST_CASE("keys come by name, each once with its tasks") {
  std::set<std::string> seen;
  std::string before;
  for (const tasks::SharedKey& shared : tasks::keys()) {
    CHECK(seen.insert(shared.key.name).second);
    CHECK(before < shared.key.name);
    before = shared.key.name;
    for (const tasks::Task* task : tasks::all()) {
      CHECK(shared.belongs_to(*task) == (task->find_key(shared.key.name) != nullptr));
    }
    if (before != tasks::loss_key) continue;
    CHECK(shared.words == std::vector<std::string>{"squared_error", "concordance", "binary", "listwise"});
  }
  CHECK(seen.contains(tasks::mask_probability_key));
  CHECK(seen.contains(tasks::standardize_key));
  CHECK(seen.contains(tasks::class_weights_key));
}
