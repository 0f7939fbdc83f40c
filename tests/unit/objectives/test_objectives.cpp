#include <catch2/catch_test_macros.hpp>
#include <string>

#include "bert_hpc/objectives/objective.hpp"

using namespace bert_hpc;

TEST_CASE("every task has an objective of its own") {
  for (const tasks::Task* task : tasks::all()) {
    const objectives::Objective& objective = objectives::named(task->name);
    INFO(task->name);
    CHECK(objective.task == task);
    CHECK((objective.head.loss != nullptr || objective.head.predicts_tokens));
    CHECK((objective.head.outputs_embeddings == task->embeds_texts));
    // Answers are made of several samples, and a sample has several words. A candidate has a score of its own.
    const bool of_samples = task->predicts_samples && (task->row_texts == 0 || task->ranks_candidates());
    CHECK((objective.predict != nullptr) == of_samples);
    // Labels are the outputs of a head that does not predict the vocabulary, or those of pairs beside it.
    CHECK(objective.head.predicts_tokens == task->predicts_tokens());
    CHECK(objective.head.labels_sequences == task->labels_pairs);
    CHECK((objective.head.predicts_tokens && !task->labels_pairs) == (task->labels == tasks::Labels::none));
  }
}

TEST_CASE("a task sets its own options of batches") {
  config::Task task;
  const auto options_of = [&task](const char* name) {
    task.name = name;
    data::BatchLoaderOptions options;
    objectives::named(name).set_batches(task, options);
    return options;
  };
  CHECK(options_of("masked_lm").mask_probability == 0.15);
  CHECK_FALSE(options_of("token_classification").all_pieces);
  CHECK_FALSE(options_of("answer_ranking").lists);
  task.numbers["mask_probability"] = 0.3;
  task.switches["all_pieces"] = true;
  task.words["loss"] = "listwise";
  CHECK(options_of("masked_lm").mask_probability == 0.3);
  CHECK(options_of("token_classification").all_pieces);
  CHECK(options_of("answer_ranking").lists);
}

TEST_CASE("the head of embeddings is that of [task] pooling") {
  config::Config input;
  input.run.mode = "train";
  input.task.name = "embedding";
  CHECK(objectives::of(input).head.pooling == ops::Pooling::mean);
  for (const auto& [word, pooling] : {std::pair("mean", ops::Pooling::mean), std::pair("max", ops::Pooling::max),
                                      std::pair("last", ops::Pooling::last)}) {
    input.task.words["pooling"] = word;
    const objectives::Objective& objective = objectives::of(input);
    CHECK(objective.head.pooling == pooling);
    CHECK(objective.head.reads_all_tokens);
    CHECK(objective.task == tasks::find("embedding"));
  }
  input.task.words["pooling"] = "cls";  // the last block computes first tokens alone
  const objectives::Objective& first = objectives::of(input);
  CHECK_FALSE(first.head.pooling.has_value());
  CHECK_FALSE(first.head.reads_all_tokens);
  CHECK(first.task->rows == tasks::LogitPositions::first_tokens);
  CHECK(first.task->embeds_texts);
}

TEST_CASE("a log names the loss of a ranking") {
  const auto text = [](const char* loss) {
    config::Task task;
    task.name = "answer_ranking";
    task.words["loss"] = loss;
    const std::vector<std::string> names;
    const auto lines = objectives::named(task.name).training_lines({task, {}, {}, names});
    REQUIRE(lines.size() == 1);
    CHECK(lines[0].first == "loss");
    return lines[0].second;
  };
  CHECK(text("listwise") == "listwise: cross entropy over each query's candidates");
  CHECK(text("binary") == "binary cross entropy of each pair of a query and a candidate");
}
