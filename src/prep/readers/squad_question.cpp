#include "squad_question.hpp"

#include <limits>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "json_value.hpp"

namespace bert_hpc::prep {
namespace {

using nlohmann::json;

constexpr int deepest_row = 100;  // the JSON parser takes many times a deep row's bytes

std::string mistyped(const char* name, const json& value, const char* should_be) {
  const char* const is = value.is_null()      ? "null"
                         : value.is_object()  ? "an object"
                         : value.is_array()   ? "a list"
                         : value.is_string()  ? "a string"
                         : value.is_boolean() ? "true or false"
                                              : "a number";
  return std::string("has ") + is + " in \"" + name + "\", which must be " + should_be;
}

std::int64_t whole(const json& number) {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  const bool beyond = number.is_number_unsigned() && number.get<std::uint64_t>() > static_cast<std::uint64_t>(most);
  return beyond ? most : number.get<std::int64_t>();
}

/// Takes a text; returns what is wrong, "" if nothing is.
std::string read_text(const json& object, const char* name, bool required, std::string& text) {
  const auto found = object.find(name);
  if (found == object.end() || (found->is_null() && !required)) {
    return required ? std::string("has no \"") + name + '"' : std::string();
  }
  if (!found->is_string()) return mistyped(name, *found, "a string");
  text = found->get<std::string>();
  return {};
}

std::string add_answer(const json& text, const json& start, SquadQuestion& question) {
  if (!text.is_string()) return mistyped("text", text, "a string for each answer");
  if (!start.is_number_integer()) return mistyped("answer_start", start, "a whole number for each answer");
  question.answers.push_back({text.get<std::string>(), whole(start)});
  return {};
}

/// {"text": […], "answer_start": […]}
std::string read_columns(const json& answers, SquadQuestion& question) {
  const auto texts = answers.find("text"), starts = answers.find("answer_start");
  for (const auto& [name, found] : {std::pair("text", texts), std::pair("answer_start", starts)}) {
    if (found == answers.end()) return std::string("has no \"") + name + "\" in \"answers\"";
    if (!found->is_array()) return mistyped(name, *found, "a list in \"answers\"");
  }
  if (texts->size() != starts->size()) {
    return "has " + core::counted(std::ssize(*texts), "text") + " and " + core::counted(std::ssize(*starts), "start") +
           " in \"answers\", which must be as many";
  }
  for (std::size_t i = 0; i < texts->size(); ++i) {
    if (std::string problem = add_answer((*texts)[i], (*starts)[i], question); !problem.empty()) return problem;
  }
  return {};
}

/// [{"text": …, "answer_start": …}]
std::string read_list(const json& answers, SquadQuestion& question) {
  for (const json& answer : answers) {
    if (!answer.is_object()) return mistyped("answers", answer, "a list of objects");
    for (const char* name : {"text", "answer_start"}) {
      if (!answer.contains(name)) return std::string("has no \"") + name + "\" in one of its answers";
    }
    if (std::string problem = add_answer(answer["text"], answer["answer_start"], question); !problem.empty()) {
      return problem;
    }
  }
  return {};
}

std::string read_answers(const json& object, SquadQuestion& question) {
  const auto found = object.find("answers");
  if (found == object.end() || found->is_null()) return {};
  if (!found->is_structured()) return mistyped("answers", *found, "an object or a list");
  question.lists_answers = true;
  std::string problem = found->is_object() ? read_columns(*found, question) : read_list(*found, question);
  question.impossible = question.answers.empty();
  return problem;
}

}  // namespace

std::string FlatQuestion::read(std::string_view text) {
  question = {};
  title.clear();
  if (!tokenize::is_valid_utf8(text)) {
    return "has bytes that are no UTF-8; if it is Latin-1, set [source] encoding = \"latin-1\"";
  }
  if (core::nests_too_deep(text, deepest_row)) return "is nested too deep";
  std::string problem;
  const bool holds_zero = text.find('\0') != std::string_view::npos;  // which the parser takes for the end
  const json object = holds_zero ? json() : read_json_value(text, problem);
  if (!problem.empty()) return problem;
  if (!object.is_object()) return "is not a JSON object";
  const auto id = object.find("id");
  if (id == object.end()) return "has no \"id\"";
  if (!id->is_string() && !id->is_number_integer()) return mistyped("id", *id, "a string");
  question.id = id->is_string() ? id->get<std::string>() : id->dump();
  for (std::string wrong : {read_text(object, "title", false, title), read_text(object, "context", true, context),
                            read_text(object, "question", true, question.text), read_answers(object, question)}) {
    if (!wrong.empty()) return wrong;
  }
  const auto impossible = object.find("is_impossible");
  if (impossible == object.end() || impossible->is_null()) return {};
  if (!impossible->is_boolean()) return mistyped("is_impossible", *impossible, "true or false");
  question.said_impossible = impossible->get<bool>();
  question.impossible = *question.said_impossible;
  return {};
}

}  // namespace bert_hpc::prep
