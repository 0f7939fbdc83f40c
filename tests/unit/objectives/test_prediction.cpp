// What tasks predict, by hand: probabilities of a few logits, and the columns of both files.
#include "bert_hpc/objectives/prediction.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <mutex>

#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/objectives/objective.hpp"

using namespace bert_hpc;
using objectives::PredictedRows;
using objectives::SampleOutputs;
using Integers = std::vector<std::int32_t>;
using Numbers = std::vector<float>;
using Texts = std::vector<std::string>;

namespace {

std::vector<std::string> names_of(const std::vector<io::PredictionColumn>& columns) {
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name);
  return names;
}

template <class T>
T values(const std::vector<io::PredictionColumn>& columns, std::size_t number) {
  return std::get<T>(columns.at(number).values);
}

bool near(const Numbers& found, const std::vector<double>& expected) {
  bool all = found.size() == expected.size();
  // Probabilities below 1 with a few roundings of 2⁻²⁴.
  for (std::size_t i = 0; all && i < found.size(); ++i) all = std::abs(found[i] - expected[i]) < 3e-7;
  return all;
}

}  // namespace

TEST_CASE("classes: softmax, the first of equal outputs, unknown labels, classes without names") {
  const Numbers outputs = {0, 1, -1, 2, 2, 200};
  const Integers label = {1, 2};
  const Texts names = {"a", "b"};
  const double sum = 1 + std::exp(1) + std::exp(-1);
  SampleOutputs samples{
      .rows = 2, .outputs = outputs, .labels = {.outputs = 3, .classes = label}, .label_names = names};
  PredictedRows found = objectives::predict_classes(samples);
  CHECK(names_of(found.stored) == Texts{"label", "prediction", "probabilities", "logits"});
  CHECK(found.stored[3].width == 3);
  CHECK(values<Numbers>(found.stored, 3) == outputs);
  CHECK(found.stored[0].width == 0);
  CHECK(found.stored[2].width == 3);
  CHECK(values<Integers>(found.stored, 0) == label);
  CHECK(values<Integers>(found.stored, 1) == Integers{1, 2});
  CHECK(near(values<Numbers>(found.stored, 2), {1 / sum, std::exp(1) / sum, std::exp(-1) / sum, 0, 0, 1}));
  CHECK(names_of(found.shown) ==
        Texts{"label", "prediction", "probability", "probability_a", "probability_b", "probability_2"});
  CHECK(values<Texts>(found.shown, 0) == Texts{"b", "2"});
  CHECK(values<Texts>(found.shown, 1) == Texts{"b", "2"});
  CHECK(near(values<Numbers>(found.shown, 2), {std::exp(1) / sum, 1}));
  CHECK(near(values<Numbers>(found.shown, 3), {1 / sum, 0}));
  samples.labels.classes = {};
  found = objectives::predict_classes(samples);
  CHECK(values<Integers>(found.stored, 0) == Integers{-1, -1});
  CHECK(values<Texts>(found.shown, 0) == Texts{"", ""});
}

TEST_CASE("a word has the probability of its tag, softmax of its logits") {
  const Numbers outputs = {0.5f, -1, 2.25f, 3, 3, -200, 90, 100, 80};
  data::PlannedData planned{{}, std::vector<std::int32_t>(1, 5)};  // [CLS], three words, [SEP]
  planned.info.task = tasks::find("token_classification");
  planned.info.vocabulary_size = 100;
  const Texts names = {"B-X", "I-X", "O"};
  planned.info.label_names = names;
  const data::ShardReader reader(planned);
  REQUIRE(reader.words().count(0) == 3);
  std::mutex hdf5;
  const objectives::OutputRules rules;
  const config::Task task;
  const data::SourceRows rows;
  const auto results = objectives::named("token_classification")
                           .results({.task = task,
                                     .reader = reader,
                                     .rows = rows,
                                     .label_names = names,
                                     .outputs = 3,
                                     .rules = rules,
                                     .probabilities = true,
                                     .evaluation = nullptr,
                                     .hdf5 = hdf5});
  REQUIRE(results->width(0) == 6);
  Numbers kept(6);
  results->keep(0, outputs, kept);
  CHECK(Numbers(kept.begin(), kept.begin() + 3) == Numbers{2, 0, 1});
  std::vector<double> expected;
  for (std::size_t word = 0; word < 3; ++word) {
    const double largest = outputs[3 * word + static_cast<std::size_t>(kept[word])];
    double sum = 0;
    for (std::size_t c = 0; c < 3; ++c) sum += std::exp(outputs[3 * word + c] - largest);
    expected.push_back(1 / sum);
  }
  CHECK(near(Numbers(kept.begin() + 3, kept.end()), expected));
}

TEST_CASE("many classes have no columns of their own; no rows have all columns") {
  const Texts names;
  for (const std::int64_t classes : {objectives::max_name_columns, objectives::max_name_columns + 1}) {
    const PredictedRows found =
        objectives::predict_classes({.outputs = {}, .labels = {.outputs = classes}, .label_names = names});
    CHECK(std::ssize(found.shown) == (classes == objectives::max_name_columns ? 3 + classes : 3));
    CHECK(found.stored[2].width == classes);
  }
}

TEST_CASE("values are predicted as they are") {
  const Numbers outputs = {6.1f, -1e-5f}, label = {6.5f, 2};
  const Texts names;
  SampleOutputs samples{.rows = 2, .outputs = outputs, .labels = {.outputs = 1, .values = label}, .label_names = names};
  PredictedRows found = objectives::predict_values(samples);
  CHECK(names_of(found.stored) == Texts{"label", "prediction"});
  CHECK(names_of(found.shown) == Texts{"label", "prediction"});
  CHECK(values<Numbers>(found.stored, 0) == label);
  CHECK(values<Numbers>(found.shown, 1) == outputs);
  samples.labels.values = {};
  found = objectives::predict_values(samples);
  CHECK(std::isnan(values<Numbers>(found.stored, 0)[1]));
  CHECK(std::isnan(values<Numbers>(found.shown, 0)[1]));
}

TEST_CASE("values of several label columns have a column each in the table") {
  const Numbers outputs = {6, 1, 7, 2}, label = {6.5f, 2, 7.5f, 3};
  const Texts names = {"grammar", "overall"};
  SampleOutputs samples{.rows = 2, .outputs = outputs, .labels = {.outputs = 2, .values = label}, .label_names = names};
  PredictedRows found = objectives::predict_values(samples);
  CHECK(names_of(found.stored) == Texts{"label", "prediction"});
  CHECK((found.stored[0].width == 2 && found.stored[1].width == 2));
  CHECK(values<Numbers>(found.stored, 0) == label);
  CHECK(values<Numbers>(found.stored, 1) == outputs);
  CHECK(names_of(found.shown) == Texts{"label_grammar", "label_overall", "prediction_grammar", "prediction_overall"});
  CHECK(values<Numbers>(found.shown, 1) == Numbers{2, 3});
  CHECK(values<Numbers>(found.shown, 2) == Numbers{6, 7});
  samples.labels.values = {};
  found = objectives::predict_values(samples);
  CHECK(std::isnan(values<Numbers>(found.shown, 1)[0]));
  CHECK(values<Numbers>(found.stored, 0).size() == 4);
}

TEST_CASE("raw scores have levels, and none where they are unknown") {
  const Numbers outputs = {-1.5f, 2};
  const Integers levels = {0, 2};
  const Texts names;
  SampleOutputs samples{
      .rows = 2, .outputs = outputs, .labels = {.outputs = 1, .levels = levels}, .label_names = names};
  PredictedRows found = objectives::predict_scores(samples);
  CHECK(names_of(found.shown) == Texts{"label", "prediction"});
  CHECK(values<Integers>(found.stored, 0) == levels);
  CHECK(values<Texts>(found.shown, 0) == Texts{"0", "2"});
  CHECK(values<Numbers>(found.shown, 1) == outputs);
  samples.labels.levels = {};
  found = objectives::predict_scores(samples);
  CHECK(values<Integers>(found.stored, 0) == Integers{-1, -1});
  CHECK(values<Texts>(found.shown, 0) == Texts{"", ""});
}

TEST_CASE("sets: sigmoid, at least one half, names with commas between them") {
  const Numbers outputs = {0, -1, 3, -0.5f, -2, -200};
  const std::vector<std::uint8_t> label = {1, 1, 0, 0, 0, 0};
  const Texts names = {"a", "b", "c"};
  SampleOutputs samples{.rows = 2, .outputs = outputs, .labels = {.outputs = 3, .sets = label}, .label_names = names};
  PredictedRows found = objectives::predict_sets(samples);
  CHECK(names_of(found.stored) == Texts{"label", "prediction", "probabilities", "logits"});
  CHECK(found.stored[3].width == 3);
  CHECK(values<Numbers>(found.stored, 3) == outputs);
  for (const auto& column : found.stored) CHECK(column.width == 3);
  CHECK(values<Integers>(found.stored, 0) == Integers{1, 1, 0, 0, 0, 0});
  CHECK(values<Integers>(found.stored, 1) == Integers{1, 0, 1, 0, 0, 0});
  CHECK(near(values<Numbers>(found.stored, 2),
             {0.5, 1 / (1 + std::exp(1)), 1 / (1 + std::exp(-3)), 1 / (1 + std::exp(0.5)), 1 / (1 + std::exp(2)), 0}));
  CHECK(names_of(found.shown) == Texts{"label", "prediction", "probability_a", "probability_b", "probability_c"});
  CHECK(values<Texts>(found.shown, 0) == Texts{"a,b", ""});
  CHECK(values<Texts>(found.shown, 1) == Texts{"a,c", ""});
  CHECK(near(values<Numbers>(found.shown, 4), {1 / (1 + std::exp(-3)), 0}));
  samples.labels.least_output = -1;
  CHECK(values<Integers>(objectives::predict_sets(samples).stored, 1) == Integers{1, 1, 1, 1, 0, 0});
  samples.labels.sets = {};
  found = objectives::predict_sets(samples);
  CHECK(values<Integers>(found.stored, 0) == Integers(6, -1));
  CHECK(values<Texts>(found.shown, 0) == Texts{"", ""});
}
