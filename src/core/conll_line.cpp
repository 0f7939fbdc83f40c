#include "bert_hpc/core/conll_line.hpp"

#include <algorithm>

namespace bert_hpc::core {
namespace {

bool has_tab(std::string_view line) {
  return line.find('\t') != std::string_view::npos;
}

/// Whether the last column looks like O or B-TYPE.
bool has_tag(const std::vector<std::string_view>& columns) {
  if (columns.size() < 2) return false;
  const std::string_view last = columns.back();
  return last == "O" || (last.size() > 2 && last[1] == '-');
}

}  // namespace

void split_conll_line(std::string_view line, std::vector<std::string_view>& columns) {
  columns.clear();
  const bool tabs = has_tab(line);
  while (!line.empty()) {
    if (!tabs) line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) break;
    const std::size_t end = std::min(line.find(tabs ? '\t' : ' '), line.size());
    columns.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
}

ConllShape::ConllShape(std::string_view line, const std::vector<std::string_view>& columns)
    : columns_(columns.size()), tabs_(has_tab(line)), tags_(has_tag(columns)) {}

bool ConllShape::is_comment(std::string_view line, const std::vector<std::string_view>& columns) const {
  if (columns_ == 0 || !may_be_conll_comment(line)) return false;
  return columns.size() != columns_ || has_tab(line) != tabs_ || (tags_ && !has_tag(columns));
}

}  // namespace bert_hpc::core
