#include "squad_lines.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "squad_columns.hpp"

namespace bert_hpc::prep {
namespace {

using nlohmann::json;

constexpr int deepest_row = 100;  // the JSON parser takes many times a deep row's bytes

/// Walks the first object of a text until its members say what the file is.
class FirstObject : public nlohmann::json_sax<json> {
 public:
  bool is_document = false, is_question = false;  // neither: the text ended before

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    is_document = name == "data";
    has_question_ = has_question_ || name == "context" || name == "question" || name == "answers";
    return !is_document;
  }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override {
    is_question = --depth_ == 0 && has_question_;
    return depth_ > 0;
  }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return --depth_ > 0; }
  bool string(string_t&) override { return depth_ > 0; }
  bool number_integer(number_integer_t) override { return depth_ > 0; }
  bool number_unsigned(number_unsigned_t) override { return depth_ > 0; }
  bool number_float(number_float_t, const string_t&) override { return depth_ > 0; }
  bool boolean(bool) override { return depth_ > 0; }
  bool null() override { return depth_ > 0; }
  bool binary(binary_t&) override { return depth_ > 0; }
  bool parse_error(std::size_t, const std::string&, const json::exception&) override {
    is_cut = true;
    return false;
  }
  bool is_cut = false;  // or no JSON

 private:
  bool enter() {
    ++depth_;
    return true;
  }
  std::int64_t depth_ = 0;
  bool has_question_ = false;
};

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

/// Takes a text; returns what is wrong, "" where nothing is.
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

class SquadLines : public RowReader {
 public:
  SquadLines(const std::string& file, std::vector<std::size_t> places) : source_(file), columns_(std::move(places)) {}

  bool next(Row& row) override {
    std::string_view line;
    if (!source_.next_filled_line(line, row.line)) return false;
    row.number = ++number_;
    question_ = {};
    title_.clear();
    if (std::string problem = read(line); !problem.empty()) {
      columns_.fail(std::move(problem), row);
    } else {
      columns_.fill(question_, title_, context_, row);
    }
    return true;
  }

 private:
  /// Returns what is wrong with the line, "" where nothing is.
  std::string read(std::string_view line) {
    if (!tokenize::is_valid_utf8(line)) {
      return "has bytes that are no UTF-8; if it is Latin-1, convert it first, with: iconv -f latin1 -t UTF-8";
    }
    if (core::nests_too_deep(line, deepest_row)) return "is nested too deep";
    const bool holds_zero = line.find('\0') != std::string_view::npos;  // which the parser takes for the end
    const json object = holds_zero ? json() : core::parse_json(line);
    if (!object.is_object()) return "is not a JSON object";
    const auto id = object.find("id");
    if (id == object.end()) return "has no \"id\"";
    if (!id->is_string() && !id->is_number_integer()) return mistyped("id", *id, "a string");
    question_.id = id->is_string() ? id->get<std::string>() : id->dump();
    for (std::string problem : {read_text(object, "title", false, title_), read_text(object, "context", true, context_),
                                read_text(object, "question", true, question_.text), read_answers(object, question_)}) {
      if (!problem.empty()) return problem;
    }
    const auto impossible = object.find("is_impossible");
    if (impossible == object.end() || impossible->is_null()) return {};
    if (!impossible->is_boolean()) return mistyped("is_impossible", *impossible, "true or false");
    question_.said_impossible = impossible->get<bool>();
    question_.impossible = *question_.said_impossible;
    return {};
  }

  LineSource source_;
  SquadColumns columns_;
  SquadQuestion question_;
  std::string title_, context_;
  std::int64_t number_ = 0;
};

}  // namespace

bool holds_squad_lines(const std::string& file) {
  LineSource source(file);
  for (std::size_t wanted = std::size_t{1} << 16;; wanted = std::min(8 * wanted, longest_record)) {
    const std::string_view text = source.peek(wanted);
    FirstObject first;
    json::sax_parse(text.begin(), text.end(), &first, nlohmann::detail::input_format_t::json, false);
    if (!first.is_cut || text.size() < wanted || wanted == longest_record) return first.is_question;
  }
}

std::unique_ptr<RowReader> open_squad_lines(const std::string& file, std::vector<std::size_t> places) {
  return std::make_unique<SquadLines>(file, std::move(places));
}

}  // namespace bert_hpc::prep
