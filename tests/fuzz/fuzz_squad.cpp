// SQuAD's JSON: what is accepted gives the rows that a plain walk through the whole document gives; what is refused has
// no such walk, or has a member twice. JSON Lines: each line that is a question gives its row, each other a problem.
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "bert_hpc/core/json_depth.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;
using nlohmann::json;
using Type = nlohmann::json::value_t;

namespace {

const std::vector<std::string> columns = {"id",          "title",       "question", "context", "is_impossible",
                                          "answer_text", "answer_start"};
struct Question {
  std::vector<std::string> values;
  bool misplaced = false;
  bool unreadable = false;
};

std::u32string characters(const std::string& text) {
  std::u32string all;
  const auto* begin = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = begin + text.size();
  while (begin < end) all += tokenize::decode_utf8(begin, end);
  return all;
}

struct NoSquad {};
void demand(bool holds) {
  if (!holds) throw NoSquad();
}

/// A member of this type; `optional`: null if there is none.
const json& member(const json& object, const char* name, Type type, bool optional = false) {
  static const json none;
  const auto found = object.find(name);
  demand(found != object.end() || optional);
  if (found == object.end()) return none;
  const bool whole = type == Type::number_integer && found->is_number_integer();
  demand(whole || found->type() == type);
  return *found;
}

/// Rows of one question: its answers are checked, and the first one counts.
Question walk_question(const json& question, const std::string& title, const std::string& context) {
  demand(question.is_object() && question.contains("id"));
  const json& id = question["id"];
  demand(id.is_string() || id.is_number_integer());
  const json& impossible = member(question, "is_impossible", Type::boolean, true);
  Question row;
  const bool large = id.is_number_unsigned() && id.get<std::uint64_t>() > INT64_MAX;
  const std::string name = id.is_string() ? id.get<std::string>() : large ? std::to_string(INT64_MAX) : id.dump();
  row.values = {name, title, member(question, "question", Type::string), context, "false", "", ""};
  if (impossible == true) row.values[4] = "true";
  bool first = true;
  for (const json& answer : member(question, "answers", Type::array, true)) {
    demand(answer.is_object());
    const std::string text = member(answer, "text", Type::string);
    const json& number = member(answer, "answer_start", Type::number_integer);
    if (!first) continue;
    first = false;
    const bool beyond = number.is_number_unsigned() && number.get<std::uint64_t>() > INT64_MAX;
    const std::int64_t start = beyond ? INT64_MAX : number.get<std::int64_t>();
    const std::u32string all = characters(context), part = characters(text);
    row.misplaced = start < 0 || start > static_cast<std::int64_t>(all.size()) ||
                    all.compare(static_cast<std::size_t>(start), part.size(), part) != 0;
    row.values[5] = text;
    row.values[6] = std::to_string(start);
    const std::size_t only = part.empty() ? std::u32string::npos : all.find(part);
    if (!row.misplaced || only == std::u32string::npos || all.find(part, only + 1) != std::u32string::npos) continue;
    row.misplaced = false;  // it is taken from its only occurrence
    row.values[6] = std::to_string(only);
  }
  return row;
}

std::vector<Question> walk(const json& root) {
  std::vector<Question> rows;
  demand(root.is_object());
  for (const json& article : member(root, "data", Type::array)) {
    demand(article.is_object());
    const json& title = member(article, "title", Type::string, true);
    for (const json& paragraph : member(article, "paragraphs", Type::array)) {
      demand(paragraph.is_object());
      const std::string context = member(paragraph, "context", Type::string);
      for (const json& question : member(paragraph, "qas", Type::array)) {
        rows.push_back(walk_question(question, title.is_null() ? "" : title.get<std::string>(), context));
      }
    }
  }
  return rows;
}

/// Rows of the file; the error, or "" if there is none, in `refused`.
std::vector<Question> read(const std::string& path, std::string& refused) {
  std::vector<Question> rows;
  try {
    const auto reader = prep::open_rows(path, {.format = prep::find_text_format("squad")}, columns);
    prep::Row row;
    std::int64_t line = 1;
    while (reader->next(row)) {
      rows.push_back({{}, !row.problem.empty()});
      for (const auto& value : row.values) {
        rows.back().unreadable = rows.back().unreadable || !value;
        rows.back().values.emplace_back(value.value_or(""));
      }
      fuzz::require(!rows.back().unreadable || rows.back().misplaced, "a row without values has a problem");
      fuzz::require(row.number == std::ssize(rows), "rows are numbered one after the other");
      fuzz::require(row.line >= line, "rows begin on ascending lines");
      line = row.line;
    }
  } catch (const core::Error& error) {
    fuzz::require(error.code() == core::ExitCode::data, "bad input is an error of the data");
    refused = error.what();
    fuzz::require(refused.ends_with('.'), "an error is a sentence");
  }
  return rows;
}

/// The rows of the document that `parse` makes; nothing if it is no JSON or no SQuAD.
template <class Parse>
std::optional<std::vector<Question>> walked(const Parse& parse) {
  try {
    return walk(parse());
  } catch (const NoSquad&) {
  } catch (const json::exception&) {
  } catch (const core::Error&) {
  }
  return std::nullopt;
}

/// A question of JSON Lines as one of a document: its columns of answers become a list of objects.
json document_question(json question) {
  demand(question.is_object());
  const auto no_null = [&](const char* name) {
    if (question.contains(name) && question[name].is_null()) question.erase(name);
  };
  for (const char* name : {"answers", "is_impossible", "title"}) no_null(name);
  if (question.contains("answers") && question["answers"].is_object()) {
    const json columns = question["answers"];
    const json &texts = member(columns, "text", Type::array), &starts = member(columns, "answer_start", Type::array);
    demand(texts.size() == starts.size());
    question["answers"] = json::array();
    for (std::size_t i = 0; i < texts.size(); ++i) {
      question["answers"].push_back({{"text", texts[i]}, {"answer_start", starts[i]}});
    }
  }
  if (question.contains("answers") && question["answers"].empty() && !question.contains("is_impossible")) {
    question["is_impossible"] = question["answers"].is_array();
  }
  return question;
}

/// Whether the first object ends on a later line than it begins: all objects may then. Like the reader's, this scan
/// takes a bracket of either kind for an end.
bool objects_span_lines(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\n\r");
  bool in_string = false, spans = false;
  int depth = 0;
  for (std::size_t i = begin; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\') ++i;
    if (c == '"') in_string = !in_string;
    if (c == '\n') spans = true;
    if (in_string) continue;
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth <= 0) return spans;
  }
  return false;
}

/// Whether each row says what its line says. Text that other readers change on its way here is not compared, nor is
/// that of objects that span lines.
bool lines_hold(const std::string& text, const std::vector<Question>& rows) {
  if (objects_span_lines(text)) return true;
  if (text.find('\r') != std::string::npos || text.starts_with("\xEF") || text.starts_with("\x1F\x8B")) return true;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end;
    if (line.find_first_not_of(" \t\v\f") == std::string::npos) continue;
    if (number == rows.size()) return false;
    const Question& row = rows[number++];
    if (core::nests_too_deep(line, 100)) {
      if (!row.unreadable) return false;
      continue;
    }
    try {
      demand(line.find('\0') == std::string::npos);
      const json question = document_question(json::parse(line));
      const json& title = member(question, "title", Type::string, true);
      const std::string context = member(question, "context", Type::string);
      Question expected = walk_question(question, title.is_null() ? "" : title.get<std::string>(), context);
      const json& id = question["id"];
      if (id.is_number()) expected.values[0] = id.dump();
      if (row.values != expected.values || row.misplaced != expected.misplaced) return false;
    } catch (const NoSquad&) {
      if (!row.unreadable) return false;
    } catch (const json::exception&) {
      if (!row.unreadable) return false;
    }
  }
  return number == rows.size();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(fuzz::text(data, size));
  const fuzz::File file(text);
  std::string refused;
  const std::vector<Question> rows = read(file.path(), refused);
  if (!refused.empty()) {
    const bool holds_zero = text.find('\0') != std::string::npos;  // which the parser takes for the end of its text
    fuzz::require(holds_zero || !walked([&] { return core::parse_strict_json(text, "text"); }), "SQuAD is not refused");
    return 0;
  }
  const auto expected = walked([&] { return json::parse(text); });
  if (!expected.has_value() && lines_hold(text, rows)) return 0;
  fuzz::require(expected.has_value(), "what is no SQuAD is refused");
  fuzz::require(rows.size() == expected->size(), "each question is a row");
  for (std::size_t i = 0; i < rows.size(); ++i) {
    fuzz::require(rows[i].values == (*expected)[i].values, "rows say what the file says");
    fuzz::require(rows[i].misplaced == (*expected)[i].misplaced, "an answer at another position is reported");
  }
  return 0;
}
