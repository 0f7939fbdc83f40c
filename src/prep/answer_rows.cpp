#include "bert_hpc/prep/answer_rows.hpp"

#include <nlohmann/json.hpp>
#include <optional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/data/answer_data.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::prep {
namespace {

using nlohmann::json;

json answers_of(std::string_view text) {
  json all = core::parse_json(text);
  core::require(all.is_array(), "the reader gives answers as a list");
  return all;
}

}  // namespace

tokenize::TokenSpan first_answer(std::string_view answers) {
  const json all = answers_of(answers);
  if (all.empty()) return no_answer;
  const auto begin = all.front().at("answer_start").get<std::int32_t>();
  return {begin, begin + static_cast<std::int32_t>(
                             tokenize::count_characters(all.front().at("text").get_ref<const std::string&>()))};
}

TokenPair answer_tokens(const MadeRow& row, const MadeRow::Sequence& sequence, tokenize::TokenSpan answer) {
  const auto& [begin, end] = sequence.window;
  const auto span = [&row](std::int64_t token) { return row.spans[static_cast<std::size_t>(token)]; };
  if (answer == no_answer || begin == end) return {};
  if (span(begin).begin > answer.begin || span(end - 1).end < answer.end) return {};
  std::int64_t first = begin, last = end - 1;
  while (first < end && span(first).begin <= answer.begin) ++first;
  while (last >= begin && span(last).end >= answer.end) --last;
  --first;
  ++last;
  if (first > last) return {};  // no token holds any of the answer's characters
  const std::int64_t shift = sequence.document - begin;
  return {static_cast<std::int32_t>(first + shift), static_cast<std::int32_t>(last + shift)};
}

void add_answer_numbers(const MadeRow& row, const MadeRow::Sequence& sequence, tokenize::TokenSpan answer,
                        std::vector<std::int32_t>& numbers) {
  const TokenPair tokens = answer_tokens(row, sequence, answer);
  const auto begin = static_cast<std::int32_t>(sequence.document),
             size = static_cast<std::int32_t>(sequence.window.end - sequence.window.begin);
  numbers.insert(numbers.end(), {tokens.first, tokens.last, begin, begin + size});
}

void add_characters(const MadeRow& row, const MadeRow::Sequence& sequence, std::int64_t tokens,
                    std::vector<std::int32_t>& numbers) {
  const std::int64_t size = sequence.window.end - sequence.window.begin;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const std::int64_t index = token - sequence.document;
    const bool inside = index >= 0 && index < size;
    const tokenize::TokenSpan span =
        inside ? row.spans[static_cast<std::size_t>(sequence.window.begin + index)] : tokenize::TokenSpan{-1, -1};
    numbers.insert(numbers.end(), {span.begin, span.end});
  }
}

std::vector<std::string> question_texts(const SourceRow& row, bool labelled) {
  std::optional<std::vector<std::string>> answers;
  if (labelled) {
    answers.emplace();
    for (const json& answer : answers_of(row.label)) answers->push_back(answer.at("text").get<std::string>());
  }
  return {std::string(row.id), std::string(row.text_pair), data::answers_to_json(answers)};
}

}  // namespace bert_hpc::prep
