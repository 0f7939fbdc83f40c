#include "bert_hpc/objectives/answers.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace bert_hpc::objectives {
namespace {

constexpr std::size_t scores_of_none = 2, numbers_of_span = 4;

/// Indices of the tokens with the largest scores, the largest first; column 0: starts, 1: ends.
std::vector<std::int64_t> best_tokens(std::span<const float> logits, std::size_t column, std::int64_t most) {
  std::vector<std::int64_t> tokens(logits.size() / 2);
  std::iota(tokens.begin(), tokens.end(), std::int64_t{0});
  const auto score = [&](std::int64_t token) { return logits[2 * static_cast<std::size_t>(token) + column]; };
  const auto before = [&](std::int64_t a, std::int64_t b) {
    return score(a) != score(b) ? score(a) > score(b) : a < b;
  };
  const auto count = std::min<std::int64_t>(most, std::ssize(tokens));
  std::partial_sort(tokens.begin(), tokens.begin() + count, tokens.end(), before);
  tokens.resize(static_cast<std::size_t>(count));
  return tokens;
}

/// Offset of each UTF-8 character, and the text's size behind the last.
std::vector<std::size_t> character_begins(std::string_view text) {
  std::vector<std::size_t> begins;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) begins.push_back(i);
  }
  begins.push_back(text.size());
  return begins;
}

/// softmax of the answers' scores
void set_probabilities(std::vector<AnswerChoice>& answers, const std::vector<float>& scores) {
  const float largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    answers[i].probability = std::exp(static_cast<double>(scores[i] - largest));
    sum += answers[i].probability;
  }
  for (AnswerChoice& answer : answers) answer.probability /= sum;
}

}  // namespace

std::int64_t window_width(const AnswerSettings& settings) {
  return static_cast<std::int64_t>(scores_of_none) + settings.n_best * static_cast<std::int64_t>(numbers_of_span);
}

void best_spans(std::span<const float> logits, std::int64_t context_begin, std::int64_t context_end,
                const AnswerSettings& settings, std::span<float> out) {
  struct Span {
    std::int64_t first, last;
    float first_logit, last_logit;
    float score() const { return first_logit + last_logit; }
  };
  const std::vector<std::int64_t> starts = best_tokens(logits, 0, settings.n_best),
                                  ends = best_tokens(logits, 1, settings.n_best);
  const auto in_context = [&](std::int64_t token) { return token >= context_begin && token < context_end; };
  std::vector<Span> spans;
  for (const std::int64_t first : starts) {
    for (const std::int64_t last : ends) {
      if (!in_context(first) || !in_context(last) || last < first || last - first >= settings.max_answer_tokens)
        continue;
      spans.push_back(
          {first, last, logits[2 * static_cast<std::size_t>(first)], logits[2 * static_cast<std::size_t>(last) + 1]});
    }
  }
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) { return a.score() > b.score(); });
  out[0] = logits[0];
  out[1] = logits[1];
  std::fill(out.begin() + scores_of_none, out.end(), -1.0f);
  const std::size_t kept = std::min(spans.size(), static_cast<std::size_t>(settings.n_best));
  for (std::size_t i = 0; i < kept; ++i) {
    const std::span<float> at = out.subspan(scores_of_none + numbers_of_span * i, numbers_of_span);
    at[0] = static_cast<float>(spans[i].first);
    at[1] = static_cast<float>(spans[i].last);
    at[2] = spans[i].first_logit;
    at[3] = spans[i].last_logit;
  }
}

void AnswerCollector::add(std::span<const float> window, std::span<const std::int32_t> characters) {
  const float score = window[0] + window[1];
  if (!none_ || score < none_->score) none_ = Candidate{0, 0, window[0], window[1], score, true};
  for (std::size_t i = scores_of_none; i < window.size() && window[i] >= 0; i += numbers_of_span) {
    const auto first = static_cast<std::size_t>(window[i]), last = static_cast<std::size_t>(window[i + 1]);
    candidates_.push_back(
        {characters[2 * first], characters[2 * last + 1], window[i + 2], window[i + 3], window[i + 2] + window[i + 3]});
  }
}

AnsweredQuestion AnswerCollector::finish(std::string_view context) {
  std::vector<Candidate> best;
  if (settings_.no_answer && none_) best.push_back(*none_);
  best.insert(best.end(), candidates_.begin(), candidates_.end());
  std::stable_sort(best.begin(), best.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  if (std::ssize(best) > settings_.n_best) best.resize(static_cast<std::size_t>(settings_.n_best));
  const bool has_none = std::any_of(best.begin(), best.end(), [](const Candidate& one) { return one.none; });
  if (settings_.no_answer && none_ && !has_none) best.push_back(*none_);

  const std::vector<std::size_t> begins = character_begins(context);
  const auto last = static_cast<std::int32_t>(begins.size() - 1);
  const auto text_of = [&](const Candidate& one) {
    const auto begin = begins[static_cast<std::size_t>(std::clamp(one.begin, 0, last))],
               end = begins[static_cast<std::size_t>(std::clamp(one.end, 0, last))];
    return one.none || end < begin ? std::string() : std::string(context.substr(begin, end - begin));
  };
  AnsweredQuestion result;
  std::vector<float> scores;
  for (const Candidate& one : best) {
    result.n_best.push_back({text_of(one), one.start_logit, one.end_logit});
    scores.push_back(one.score);
  }
  // As in the original: without any other answer there is the word "empty", of score 0.
  if (result.n_best.empty() || (result.n_best.size() == 1 && result.n_best.front().text.empty())) {
    result.n_best.insert(result.n_best.begin(), AnswerChoice{"empty", 0, 0});
    scores.insert(scores.begin(), 0.0f);
  }
  set_probabilities(result.n_best, scores);
  const auto answered = std::find_if(result.n_best.begin(), result.n_best.end(),
                                     [](const AnswerChoice& answer) { return !answer.text.empty(); });
  if (!settings_.no_answer) {
    result.text = result.n_best.front().text;
  } else if (answered != result.n_best.end() && none_) {
    const float odds = none_->score - answered->start_logit - answered->end_logit;
    result.null_odds = odds;
    result.text = odds > settings_.null_threshold ? std::string() : answered->text;
  }
  candidates_.clear();
  none_.reset();
  return result;
}

}  // namespace bert_hpc::objectives
