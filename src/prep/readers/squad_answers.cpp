#include "squad_answers.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::prep {

using nlohmann::json;

namespace {

/// Offset of a character of valid UTF-8, counted from 0; the size of the text for the one after the last.
std::optional<std::size_t> byte_of_character(std::string_view text, std::int64_t number) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool begins = (static_cast<unsigned char>(text[i]) & 0xC0) != 0x80;
    if (begins && number-- == 0) return i;
  }
  return number == 0 ? std::optional(text.size()) : std::nullopt;
}

}  // namespace

std::string misplaced(const SquadQuestion& question, const std::string& context) {
  if (!question.answered()) return {};
  const SquadAnswer& answer = question.answers.front();
  const auto begin = byte_of_character(context, answer.start);
  const std::string_view there = std::string_view(context).substr(begin.value_or(context.size()));
  if (begin && there.starts_with(answer.text)) return {};
  std::string problem = "has the answer \"" + core::printable(answer.text, 60);
  problem.append("\" at answer_start ").append(std::to_string(answer.start)).append(", but its context ");
  if (begin) {
    problem.append("has \"").append(core::printable(there, 60)).append("\" there");
  } else {
    problem.append("has ").append(core::counted(tokenize::count_characters(context), "character"));
  }
  return problem.append(" (question ").append(core::printable(question.id, 60)).append(")");
}

std::string contradiction(const SquadQuestion& question) {
  if (!question.said_impossible || *question.said_impossible != question.answered()) return {};
  if (!question.answered() && !question.lists_answers) return {};  // text to be predicted
  return std::string("has ") +
         (question.answered() ? "answers and is_impossible = true: the answers count"
                              : "no answer and is_impossible = false: it counts as without answer") +
         " (question " + core::printable(question.id, 60) + ")";
}

std::optional<std::int64_t> only_position(std::string_view text, std::string_view context) {
  const std::size_t first = text.empty() ? std::string_view::npos : context.find(text);
  if (first == std::string_view::npos || context.find(text, first + 1) != std::string_view::npos) return std::nullopt;
  return tokenize::count_characters(context.substr(0, first));
}

std::string answers_text(const SquadQuestion& question) {
  if (!question.lists_answers && !question.impossible) return {};
  json all = json::array();
  for (const SquadAnswer& answer : question.answers) {
    all.push_back({{"answer_start", answer.start}, {"text", answer.text}});
  }
  return core::json_text(all);
}

}  // namespace bert_hpc::prep
