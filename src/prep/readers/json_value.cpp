#include "json_value.hpp"

#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::string_view not_numbers[] = {"NaN", "-Infinity", "Infinity"};

}  // namespace

bool may_have_nan(std::string_view text) {
  return text.find("NaN") != std::string_view::npos || text.find("Infinity") != std::string_view::npos;
}

std::string with_nulls(std::string_view text) {
  std::string all;
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '\\' && i + 1 < text.size()) {
      all += c;
      all += text[++i];
      continue;
    }
    if (c == '"') quoted = !quoted;
    const std::string_view rest = text.substr(i);
    std::size_t skipped = 0;
    for (const std::string_view name : not_numbers) {
      if (!quoted && skipped == 0 && rest.starts_with(name)) skipped = name.size();
    }
    if (skipped > 0) {
      all += "null";
      i += skipped - 1;
    } else {
      all += c;
    }
  }
  return all;
}

std::string json_problem(const std::string& what) {
  if (what.find("surrogate") != std::string::npos) {
    return "it has one half of a surrogate pair, such as \\ud83d without the other, which is no character: the program "
           "that wrote it cut a text within a character";
  }
  std::size_t begin = what.find("] ");
  begin = begin == std::string::npos ? 0 : begin + 2;
  if (what.compare(begin, 11, "parse error") == 0) {
    const std::size_t colon = what.find(": ", begin);
    if (colon != std::string::npos) begin = colon + 2;
  }
  const bool bytes = what.find("UTF-8", begin) != std::string::npos;
  return core::printable(std::string_view(what).substr(begin), 300) +
         (bytes ? "; if it is Latin-1, set [source] encoding = \"latin-1\"" : "");
}

nlohmann::json read_json_value(std::string_view text, std::string& problem) {
  using nlohmann::json;
  json value = core::parse_json(text);
  if (!value.is_discarded()) return value;
  if (may_have_nan(text)) {
    value = core::parse_json(with_nulls(text));
    if (!value.is_discarded()) return value;
  }
  try {
    value = json::parse(text.begin(), text.end());
  } catch (const json::exception& error) {
    problem = "is not JSON: " + json_problem(error.what());
    if (text.starts_with("{'")) problem += "; Python wrote it with str(): write it with json.dumps()";
  }
  return value;
}

}  // namespace bert_hpc::prep
