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
                                                   "embedding", "class_embedding", "masked_lm", "masked_lm_pairs",
                                                   "causal_lm"});
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
    CHECK(shared.words == std::vector<std::string>{"squared_error", "concordance", "binary", "listwise",
                                                   "multiple_negatives", "cosine_similarity", "triplet", "margin_mse",
                                                   "batch_hard_triplet", "batch_hard_soft_margin_triplet",
                                                   "batch_semi_hard_triplet", "batch_all_triplet"});
  }
  CHECK(seen.contains(tasks::mask_probability_key));
  CHECK(seen.contains(tasks::standardize_key));
  CHECK(seen.contains(tasks::class_weights_key));
}

TEST_CASE("a task's default values are within the limits of their keys, and keys that exclude each other exist") {
  for (const tasks::Task* task : tasks::all()) {
    INFO(task->name);
    CHECK_FALSE(task->metrics.empty());
    for (const tasks::Key& key : task->keys) {
      INFO(key.name);
      CHECK(task->find_key(key.name) == &key);
      if (const auto* number = std::get_if<double>(&key.usual); number != nullptr && !key.optional) {
        CHECK((key.low_open ? *number > key.low : *number >= key.low));
        CHECK((key.high_open ? *number < key.high : *number <= key.high));
      }
      if (const auto* words = std::get_if<tasks::Words>(&key.usual)) CHECK(words->names().size() > 1);
      const std::string_view other = key.other;
      CHECK((other.empty() || task->find_key(other) != nullptr));
    }
    CHECK(task->find_key("learning_rate") == nullptr);
  }
}

TEST_CASE("what a task's labels are decides which facts hold for it") {
  const auto facts = [](const char* name) {
    const tasks::Task& task = tasks::named(name);
    return std::vector<bool>{task.has_label_names(), task.masks_tokens(),  task.ranks_candidates(),
                             task.has_groups(),      task.has_text_rows(), task.embeds_texts};
  };
  using Facts = std::vector<bool>;
  CHECK(facts("classification") == Facts{true, false, false, false, false, false});
  CHECK(facts("multi_label") == Facts{true, false, false, false, false, false});
  CHECK(facts("token_classification") == Facts{true, false, false, false, false, false});
  CHECK(facts("regression") == Facts{false, false, false, false, false, false});
  CHECK(facts("question_answering") == Facts{false, false, false, false, false, false});
  CHECK(facts("answer_ranking") == Facts{false, false, true, true, false, false});
  CHECK(facts("embedding") == Facts{false, false, false, true, true, true});
  CHECK(facts("class_embedding") == Facts{true, false, false, false, false, true});
  CHECK(facts("masked_lm") == Facts{false, true, false, false, false, false});
  CHECK(facts("masked_lm_pairs") == Facts{true, true, false, false, false, false});
  CHECK(facts("causal_lm") == Facts{false, false, false, false, false, false});
  CHECK(tasks::names_where([](const tasks::Task& task) { return task.has_label_names(); }) ==
        R"("classification", "multi_label", "token_classification", "class_embedding" and "masked_lm_pairs")");
  CHECK(tasks::names_where([](const tasks::Task& task) { return task.masks_tokens(); }) ==
        R"("masked_lm" and "masked_lm_pairs")");
  CHECK(tasks::names_where([](const tasks::Task& task) { return task.predicts_next_tokens(); }) == R"("causal_lm")");
  CHECK(tasks::names_where([](const tasks::Task& task) { return task.predicts_tokens(); }) ==
        R"("masked_lm", "masked_lm_pairs" and "causal_lm")");
}

TEST_CASE("an input without a task is one of classification") {
  CHECK(&tasks::named("") == tasks::find("classification"));
}
