#include "delimited_advice.hpp"

#include <algorithm>

namespace bert_hpc::prep {

std::string delimiter_advice(const std::vector<std::string>& names, const RowFormat& format) {
  const char usual = format.format->delimiter;
  if (!names.empty() && names[0].starts_with("sep=")) {
    return " The first line is a note to Excel and no header: remove it, and set [source] delimiter to what it names.";
  }
  const auto is_quoted = [](const std::string& name) {
    return name.size() > 1 && name.front() == '"' && name.back() == '"';
  };
  if (!format.quotes && std::all_of(names.begin(), names.end(), is_quoted) && !names.empty()) {
    return " The names are in quotes: set [source] quotes = true.";
  }
  if (names.size() != 1) return {};
  for (const char c : {'\t', ';', '|', ','}) {
    if (c == format.delimiter || names[0].find(c) == std::string::npos) continue;
    const std::string cure = c == usual  ? "remove [source] delimiter"
                             : c == '\t' ? "set [source] format = \"tsv\""
                             : c == ','  ? "set [source] format = \"csv\""
                                         : std::string("set [source] delimiter = \"") + c + "\"";
    const std::string character = c == '\t' ? "a tab" : std::string("\"") + c + '"';
    return " If " + character + " separates the columns, " + cure + ".";
  }
  return {};
}

std::string header_advice(const std::vector<std::string>& names) {
  const bool data = std::any_of(names.begin(), names.end(), [](const std::string& name) {
    const bool number = name.find_first_not_of("+-.0123456789") == std::string::npos;
    return (number && !name.empty()) || std::count(name.begin(), name.end(), ' ') > 2;
  });
  return data ? " If the first row is data and not a header, set [source] header = false and give columns by number, "
                "from \"1\"."
              : "";
}

bool is_enclosed(std::string_view text) {
  if (text.size() < 4 || text.front() != '"' || text.back() != '"') return false;
  text = text.substr(1, text.size() - 2);
  std::size_t quotes = 0;
  for (std::size_t at = text.find('"'); at != std::string_view::npos; at = text.find('"', at + 2)) {
    if (!text.substr(at).starts_with("\"\"")) return false;
    ++quotes;
  }
  return quotes > 0;
}

}  // namespace bert_hpc::prep
