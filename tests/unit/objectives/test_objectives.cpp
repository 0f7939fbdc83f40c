#include <catch2/catch_test_macros.hpp>
#include <string>

#include "bert_hpc/objectives/objective.hpp"

using namespace bert_hpc;

TEST_CASE("every task has an objective of its own") {
  for (const tasks::Task* task : tasks::all()) {
    const objectives::Objective& objective = objectives::named(task->name);
    INFO(task->name);
    CHECK(objective.task == task);
    CHECK((objective.head.loss != nullptr || objective.head.ties_word_embeddings));
    // Answers are made of several samples, and a sample has several words. A candidate has a score of its own.
    const bool of_samples = task->predicts_samples && (task->row_texts == 0 || task->ranks_candidates());
    CHECK((objective.predict != nullptr) == of_samples);
    // Labels are the outputs of a head that does not predict the vocabulary.
    CHECK(objective.head.ties_word_embeddings == (task->labels == tasks::Labels::none));
  }
}
