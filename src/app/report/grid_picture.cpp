#include "app/report/grid_picture.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::string range_text(int first, int last) {
  return first == last ? std::to_string(first) : std::to_string(first) + '-' + std::to_string(last);
}

/// What a stage holds: "embeddings + blocks 0-3", "blocks 0-1, 4-5", "block 3 + head", "attention of 2".
std::string holds_text(const StageFacts& stage, bool first, bool last) {
  std::string blocks;
  for (const auto& [count, text] : stage.sublayers) {
    if (count > 0) blocks += (blocks.empty() ? "" : ", ") + text;
  }
  const bool begins_whole = !blocks.empty() && is_digit(blocks[0]);
  const bool single = blocks.find_first_not_of("0123456789") == std::string::npos;
  if (begins_whole) blocks = (single ? "block " : "blocks ") + blocks;
  std::string text = first ? "embeddings" : "";
  for (const std::string& more : {blocks, std::string(last ? "head" : "")}) {
    if (!more.empty()) text += (text.empty() ? "" : " + ") + more;
  }
  return text;
}

/// True if two stages differ only in their position: the same numbers, neither at an end of the pipeline.
bool same_load(const StageFacts& a, const StageFacts& b) {
  const auto shape = [](const StageFacts& stage) {
    std::vector<std::pair<int, bool>> result;  // sublayers, and whether they begin with a whole block
    for (const auto& [count, text] : stage.sublayers) result.emplace_back(count, !text.empty() && is_digit(text[0]));
    return result;
  };
  return a.parameters == b.parameters && a.bytes == b.bytes && shape(a) == shape(b);
}

using Row = std::vector<std::string>;

/// Columns as wide as their widest entry, two spaces apart.
std::string table(const std::vector<Row>& rows) {
  std::vector<std::size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      text += row[i];
      if (i + 1 < row.size()) text += std::string(widths[i] - row[i].size() + 2, ' ');
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string grid_picture(const comm::GridShape& shape, const std::vector<StageFacts>& stages) {
  core::require(static_cast<int>(stages.size()) == shape.pipeline, "grid picture: one entry for each stage");
  const int count = shape.pipeline;
  const bool memory = std::any_of(stages.begin(), stages.end(), [](const StageFacts& s) { return s.bytes > 0; });
  std::vector<Row> rows = {{"stage", "ranks", "holds", "parameters a rank"}};
  if (memory) rows[0].push_back("memory a rank");
  const int width = shape.data * shape.tensor;
  for (int first = 0; first < count;) {
    const StageFacts& stage = stages[static_cast<std::size_t>(first)];
    int last = first;
    if (first > 0) {
      while (last + 2 < count && same_load(stages[static_cast<std::size_t>(last) + 1], stage)) ++last;
    }
    std::string holds = holds_text(stage, first == 0, first == count - 1);
    if (last > first)
      holds += (last == first + 1 ? "; " : " to ") + holds_text(stages[static_cast<std::size_t>(last)], false, false);
    Row row = {range_text(first, last), range_text(first * width, (last + 1) * width - 1), holds,
               core::with_commas(stage.parameters)};
    if (memory) row.push_back(core::format_bytes(stage.bytes));
    rows.push_back(row);
    first = last + 1;
  }
  std::string text = table(rows);
  if (shape.data > 1 && shape.tensor > 1) {
    text += core::counted(shape.data, "replica") + ", each stage of one on " + std::to_string(shape.tensor) +
            " neighbouring ranks that share its blocks\n";
  } else if (shape.tensor > 1) {
    text += std::to_string(shape.tensor) + " neighbouring ranks share the blocks of a stage\n";
  } else if (shape.data > 1) {
    text += core::counted(shape.data, "replica") + ", a rank each in every stage\n";
  }
  return text;
}

}  // namespace bert_hpc::app
