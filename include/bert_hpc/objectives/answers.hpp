// From the scores of tokens to the answers of questions, as Transformers' postprocess_qa_predictions() does: the best
// spans of each window, then of all windows of a question. Scores are added in single precision, as there. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "bert_hpc/objectives/answer_files.hpp"

namespace bert_hpc::objectives {

struct AnswerSettings {
  std::int64_t n_best = 20;             ///< starts, ends and answers that are kept
  std::int64_t max_answer_tokens = 30;  ///< longer spans are no answers
  bool no_answer = true;                ///< whether a question may have no answer; the first token then says so
  double null_threshold = 0;  ///< "no answer" where its score exceeds that of the best answer by more than this
};

/// Numbers that a window's best spans take: the two scores of the first token, then first, last and their scores of
/// each span; first = −1: there are no more.
std::int64_t window_width(const AnswerSettings& settings);

/// The best spans of a window within tokens [context_begin, context_end), the best first. logits (tokens, 2); out:
/// (window_width()).
void best_spans(std::span<const float> logits, std::int64_t context_begin, std::int64_t context_end,
                const AnswerSettings& settings, std::span<float> out);

/// Collects the windows of a question.
class AnswerCollector {
 public:
  explicit AnswerCollector(const AnswerSettings& settings) : settings_(settings) {}

  /// `window`: best_spans(). characters (tokens, 2): of each token, [begin, end) in the context.
  void add(std::span<const float> window, std::span<const std::int32_t> characters);
  /// The answer of the windows so far; then there are none. `context`: UTF-8.
  AnsweredQuestion finish(std::string_view context);

 private:
  struct Candidate {
    std::int32_t begin = 0, end = 0;  // characters
    float start_logit = 0, end_logit = 0, score = 0;
    bool none = false;  // "no answer"
  };

  AnswerSettings settings_;
  std::vector<Candidate> candidates_;
  std::optional<Candidate> none_;  // of the window with the lowest score
};

}  // namespace bert_hpc::objectives
