#include "bert_hpc/score/qrels.hpp"

#include <string_view>
#include <utility>

#include "lines.hpp"

namespace bert_hpc::score {
namespace {

constexpr std::size_t trec_columns = 4, beir_columns = 3;

void add(const Line& line, std::size_t document, std::size_t level, Judgements& judgements) {
  const std::int64_t value = line.integer(level, INT32_MIN, INT32_MAX);
  const bool is_new = judgements[std::string(line.columns[0])].emplace(line.columns[document], value).second;
  if (!is_new) line.fail("the query has a judgement of this document already; remove one.");
}

/// Whether a line of three columns names them, as BEIR's files do, and is no judgement that lacks its level.
bool is_header(const Line& line) {
  const auto is_number = [](std::string_view text) {
    return text.find_first_not_of("-0123456789") == std::string_view::npos;
  };
  return line.columns.size() == beir_columns && !is_number(line.columns[1]) && !is_number(line.columns[2]);
}

}  // namespace

Judgements read_judgements(const std::string& path) {
  Judgements judgements;
  std::size_t columns = 0;  // of the first line, and so of all
  each_row(path, Separator::blanks, [&](const Line& line) {
    const bool is_first = std::exchange(columns, columns == 0 ? line.columns.size() : columns) == 0;
    if (is_first && is_header(line)) return;
    if (columns == beir_columns) {
      line.require_columns(beir_columns, "query document level");
      return add(line, 1, 2, judgements);
    }
    line.require_columns(trec_columns, "query 0 document level");
    add(line, 2, 3, judgements);
  });
  return judgements;
}

}  // namespace bert_hpc::score
