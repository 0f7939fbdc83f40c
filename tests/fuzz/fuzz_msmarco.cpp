// MS MARCO's triples and candidates, with judgements (qrels) behind the first byte 1. What is accepted gives the rows
// that a plain walk through the lines gives: two rows of each triple, a row of each candidate with its level.
#include <algorithm>
#include <charconv>
#include <map>
#include <sstream>
#include <vector>

#include "bert_hpc/prep/readers/row_reader.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

namespace {

const std::vector<std::string> columns = {"query_id", "passage_id", "query", "passage", "label"};

using Fields = std::vector<std::string>;

Fields split(const std::string& text, char separator) {
  Fields fields;
  for (std::size_t begin = 0;; ++begin) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    fields.push_back(text.substr(begin, end - begin));
    begin = end;
    if (end == text.size()) return fields;
  }
}

/// Lines with other characters than `blanks` and their numbers.
std::vector<std::pair<std::int64_t, std::string>> lines_of(const std::string& text, const char* blanks) {
  std::vector<std::pair<std::int64_t, std::string>> lines;
  std::int64_t number = 0;
  for (const std::string& line : split(text, '\n')) {
    ++number;
    if (line.find_first_not_of(blanks) != std::string::npos) lines.emplace_back(number, line);
  }
  return lines;
}

/// {query, passage: level}, by blanks.
std::map<std::pair<std::string, std::string>, int> judgements(const std::string& text) {
  std::map<std::pair<std::string, std::string>, int> levels;
  for (const auto& [number, line] : lines_of(text, " \t\v\f")) {
    Fields fields(1);
    for (const char letter : line) {
      if (letter != ' ' && letter != '\t') fields.back() += letter;
      if ((letter == ' ' || letter == '\t') && !fields.back().empty()) fields.emplace_back();
    }
    if (fields.back().empty()) fields.pop_back();
    fuzz::require(fields.size() == 4, "judgements have four columns");
    int level = 0;
    const char* const end = fields[3].data() + fields[3].size();
    fuzz::require(std::from_chars(fields[3].data(), end, level).ptr == end, "a level is a whole number");
    fuzz::require(levels.emplace(std::pair(fields[0], fields[2]), std::max(level, 0)).second,
                  "a passage is judged once");
  }
  fuzz::require(!levels.empty(), "there are judgements");
  return levels;
}

struct Expected {
  std::int64_t line = 0;
  Fields values;  // empty if the row has a problem
};

std::vector<Expected> walk(const std::string& text, const std::string& qrels, bool judged) {
  const auto levels = judged ? judgements(qrels) : std::map<std::pair<std::string, std::string>, int>();
  std::vector<Expected> rows;
  const auto lines = lines_of(text, "");
  const std::size_t width = split(split(text, '\n').front(), '\t').size();
  for (const auto& [number, line] : lines) {
    const Fields fields = split(line, '\t');
    const bool good = fields.size() == width;
    if (width == 3) {
      for (const int column : {1, 2}) {
        rows.push_back({number, {}});
        if (!good) continue;
        const std::string index = std::to_string(column), label = column == 1 ? "1" : "0";
        rows.back().values = {std::to_string(number), index, fields[0], fields[static_cast<std::size_t>(column)],
                              label};
      }
    } else {
      rows.push_back({number, {}});
      if (!good) continue;
      const auto found = levels.find({fields[0], fields[1]});
      rows.back().values = fields;
      if (judged) rows.back().values.push_back(std::to_string(found == levels.end() ? 0 : found->second));
    }
  }
  return rows;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string all(fuzz::text(data, size));
  const std::size_t cut = std::min(all.find('\1'), all.size());
  const std::string text = all.substr(0, cut), qrels = cut < all.size() ? all.substr(cut + 1) : "";
  const bool judged = cut < all.size();
  const fuzz::File file(text), judgements_file(qrels);
  // Other readers change the text on its way to these: bytes that are cut off or converted.
  const auto is_plain = [](const std::string& bytes) {
    return !bytes.starts_with("\xEF") && !bytes.starts_with("\x1F\x8B") && bytes.find('\r') == std::string::npos &&
           bytes.find('\0') == std::string::npos;
  };
  fuzz::accepts([&] {
    prep::RowFormat format{.format = prep::find_text_format("msmarco")};
    format.delimiter = format.format->delimiter;
    format.quotes = format.format->quotes;
    if (judged) format.qrels = judgements_file.path();
    const bool is_triples = std::count(text.begin(), std::find(text.begin(), text.end(), '\n'), '\t') == 2;
    std::vector<std::string> wanted = columns;
    if (!judged && !is_triples) wanted.pop_back();
    const auto rows = prep::open_rows(file.path(), format, wanted);
    const bool compares = is_plain(text) && (is_triples || is_plain(qrels));
    const std::vector<Expected> expected =
        compares ? walk(text, qrels, judged && !is_triples) : std::vector<Expected>();
    prep::Row row;
    std::int64_t number = 0;
    while (rows->next(row)) {
      fuzz::require(row.number == ++number, "rows are numbered one after the other");
      fuzz::require(row.values.size() == wanted.size(), "a row has the columns asked for");
      for (const auto& value : row.values) {
        fuzz::require(value.has_value() == row.problem.empty(), "a row that can be read has values, and no other");
      }
      if (!compares) continue;
      fuzz::require(number <= std::ssize(expected), "rows are those of lines that are not empty");
      const Expected& own = expected[static_cast<std::size_t>(number) - 1];
      fuzz::require(row.line == own.line, "a row is of its line");
      fuzz::require(row.problem.empty() == !own.values.empty(), "a row of another width has a problem");
      for (std::size_t i = 0; i < own.values.size(); ++i) {
        fuzz::require(*row.values[i] == own.values[i], "values are those of the line");
      }
    }
    fuzz::require(!compares || number == std::ssize(expected), "each line is a row or two");
  });
  return 0;
}
