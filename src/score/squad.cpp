// The formulas of SQuAD's scripts. The order of additions is theirs, so that the results have the same bits.
#include "bert_hpc/score/squad.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <unordered_map>

#include "bert_hpc/score/python_text.hpp"

namespace bert_hpc::score {
namespace {

constexpr double no_answer_threshold = 1.0;  // of evaluate-v2.0.py: above it, the prediction counts as empty

using Words = std::vector<std::u32string>;

/// Number of words in both, with repetitions.
std::size_t common_words(Words a, Words b) {
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  Words common;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(common));
  return common.size();
}

double words_f1(const Words& gold, const Words& predicted) {
  const auto same = static_cast<double>(common_words(gold, predicted));
  if (same == 0.0) return 0.0;
  const double precision = same / static_cast<double>(predicted.size());
  const double recall = same / static_cast<double>(gold.size());
  return 2.0 * precision * recall / (precision + recall);
}

/// A question of version 2.0 with its scores.
struct Scored {
  const Question* question;
  AnswerScore raw, thresholded;
  bool has_answer() const { return !question->answers.empty(); }
};

/// Repeated ids are one question: at the first's index, with the last's answers.
std::vector<Question> without_repeated_ids(const std::vector<Question>& questions) {
  std::vector<Question> unique;
  std::unordered_map<std::string, std::size_t> indices;
  for (const Question& question : questions) {
    const auto [found, is_new] = indices.emplace(question.id, unique.size());
    if (is_new) {
      unique.push_back(question);
    } else {
      unique[found->second] = question;
    }
  }
  return unique;
}

/// Means in percent over the questions for which `counts` holds; nothing if there are none.
void add_means(Result& result, const std::string& prefix, const std::vector<Scored>& all,
               const std::function<bool(const Scored&)>& counts) {
  double exact = 0.0, f1 = 0.0, total = 0.0;
  for (const Scored& one : all) {
    if (!counts(one)) continue;
    exact += one.thresholded.exact;
    f1 += one.thresholded.f1;
    total += 1.0;
  }
  if (total == 0.0) return;
  result.numbers.push_back({prefix + "exact", 100.0 * exact / total});
  result.numbers.push_back({prefix + "f1", 100.0 * f1 / total});
  result.numbers.push_back({prefix + "total", total, true});
}

/// By ascending probability, each question's prediction in turn replaces "no answer": the best score on the way.
void add_best_threshold(Result& result, const std::string& name, const std::vector<Scored>& all,
                        const Predictions& predictions, const std::vector<NoAnswerProbability>& ascending,
                        double AnswerScore::*kind) {
  std::unordered_map<std::string, const Scored*> scored;
  double score = 0.0;
  for (const Scored& one : all) {
    scored[one.question->id] = &one;
    if (!one.has_answer()) score += 1.0;
  }
  double best = score, threshold = 0.0;
  for (const NoAnswerProbability& probability : ascending) {
    const auto found = scored.find(probability.id);
    if (found == scored.end()) continue;
    if (found->second->has_answer()) {
      score += found->second->raw.*kind;
    } else if (!predictions.at(probability.id).empty()) {
      score -= 1.0;
    }
    if (score > best) {
      best = score;
      threshold = probability.value;
    }
  }
  result.numbers.push_back({"best_" + name, 100.0 * best / static_cast<double>(all.size())});
  result.numbers.push_back({"best_" + name + "_thresh", threshold});
}

/// Version 1.1's F1 of two texts without words is 0, version 2.0's is 1 (`empty_f1`).
AnswerScore best_score(const std::vector<std::string>& answers, const std::string& prediction, double empty_f1) {
  const Words predicted = answer_words(prediction);
  AnswerScore best;
  for (const std::string& answer : answers) {
    const Words gold = answer_words(answer);
    best.exact = std::max(best.exact, gold == predicted ? 1.0 : 0.0);
    best.f1 = std::max(best.f1, gold.empty() && predicted.empty() ? empty_f1 : words_f1(gold, predicted));
  }
  return best;
}

}  // namespace

AnswerScore squad_answer_score(const std::vector<std::string>& answers, const std::string& prediction) {
  std::vector<std::string> gold = answers;
  std::erase_if(gold, [](const std::string& answer) { return answer_words(answer).empty(); });
  if (gold.empty()) gold.emplace_back();
  return best_score(gold, prediction, 1.0);
}

Result squad1_result(const std::vector<Question>& questions, const Predictions& predictions) {
  Result result;
  double exact = 0.0, f1 = 0.0;
  for (const Question& question : questions) {
    const auto found = predictions.find(question.id);
    if (found == predictions.end()) {
      result.notes.push_back("question " + question.id + " has no prediction and counts 0.");
      continue;
    }
    const AnswerScore score = best_score(question.answers, found->second, 0.0);
    exact += score.exact;
    f1 += score.f1;
  }
  const auto total = static_cast<double>(questions.size());
  result.numbers = {{"exact_match", 100.0 * exact / total}, {"f1", 100.0 * f1 / total}};
  return result;
}

Result squad2_result(const std::vector<Question>& questions, const Predictions& predictions,
                     const std::vector<NoAnswerProbability>& probabilities) {
  std::unordered_map<std::string, double> values;
  for (const NoAnswerProbability& one : probabilities) values[one.id] = one.value;
  const std::vector<Question> unique = without_repeated_ids(questions);
  std::vector<Scored> all;
  for (const Question& question : unique) {
    const AnswerScore raw = squad_answer_score(question.answers, predictions.at(question.id));
    Scored one{&question, raw, raw};
    if (!probabilities.empty() && values.at(question.id) > no_answer_threshold) {
      one.thresholded.exact = one.thresholded.f1 = one.has_answer() ? 0.0 : 1.0;
    }
    all.push_back(one);
  }
  Result result;
  add_means(result, "", all, [](const Scored&) { return true; });
  add_means(result, "HasAns_", all, [](const Scored& one) { return one.has_answer(); });
  add_means(result, "NoAns_", all, [](const Scored& one) { return !one.has_answer(); });
  if (probabilities.empty()) return result;
  std::vector<NoAnswerProbability> ascending = probabilities;
  std::stable_sort(ascending.begin(), ascending.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  add_best_threshold(result, "exact", all, predictions, ascending, &AnswerScore::exact);
  add_best_threshold(result, "f1", all, predictions, ascending, &AnswerScore::f1);
  return result;
}

}  // namespace bert_hpc::score
