// GLUE (Wang et al. 2018, doi:10.18653/v1/W18-5446): the tab-separated files of its tasks as they are distributed. They
// have no quoting rules. The header says which columns hold the texts and the label; CoLA's labelled files have no
// header. Files to be predicted have no label.
#include <algorithm>
#include <array>
#include <utility>

#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "column_words.hpp"
#include "delimited_rows.hpp"

namespace bert_hpc::prep {
namespace {

/// Names of the columns in a file's header; no pair: single sentences.
struct Layout {
  std::string text, pair, label;
};

/// A file has the first layout whose text and pair are in its header.
const std::array<Layout, 7> layouts{{
    {"#1 String", "#2 String", "Quality"},       // MRPC
    {"question1", "question2", "is_duplicate"},  // QQP
    {"question", "sentence", "label"},           // QNLI
    {"sentence1", "sentence2", "gold_label"},    // MNLI
    {"sentence1", "sentence2", "score"},         // STS-B
    {"sentence1", "sentence2", "label"},         // RTE, WNLI
    {"sentence", "", "label"},                   // SST-2; CoLA without labels
}};

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> fields;
  for (;;) {
    const std::size_t tab = line.find('\t');
    fields.emplace_back(line.substr(0, tab));
    if (tab == std::string_view::npos) return fields;
    line.remove_prefix(tab + 1);
  }
}

/// Columns of a file by the names they have in the format.
struct Columns {
  bool header = true;
  std::vector<std::string> names, in_file;  ///< in the same order
  void add(const std::string& name, const std::string& column) {
    names.push_back(name);
    in_file.push_back(column);
  }
};

/// Throws Error(data) if the file has no layout of GLUE.
Columns columns_of(const std::string& file, const std::string& encoding) {
  LineSource source(file, encoding);
  std::string_view line;
  source.next_line(line);
  const std::vector<std::string> fields = split(line);
  const auto has = [&](const std::string& name) {
    return std::find(fields.begin(), fields.end(), name) != fields.end();
  };
  Columns columns;
  for (const bool labelled : {true, false}) {
    for (const Layout& layout : layouts) {
      const bool pairs = !layout.pair.empty();
      if (!has(layout.text) || (pairs && !has(layout.pair)) || (labelled && !has(layout.label))) continue;
      columns.add("text", layout.text);
      if (pairs) columns.add("text_pair", layout.pair);
      if (labelled) columns.add("label", layout.label);
      return columns;
    }
  }
  if (fields.size() == 4 && (fields[1] == "0" || fields[1] == "1")) {  // CoLA: source, label, author's mark, sentence
    columns.header = false;
    columns.add("text", "4");
    columns.add("label", "2");
    return columns;
  }
  throw core::Error(core::ExitCode::data,
                    file +
                        ": begins neither with a header of a GLUE task, as index, sentence1, sentence2 and label "
                        "between tabs, nor with a row of CoLA. For another table set [source] format = \"tsv\".");
}

/// Rejects rows whose annotators found no common label: their gold_label is "-".
class GoldRows : public RowReader {
 public:
  GoldRows(std::unique_ptr<RowReader> rows, std::size_t label) : rows_(std::move(rows)), label_(label) {}

  bool next(Row& row) override {
    if (!rows_->next(row)) return false;
    if (row.problem.empty() && row.values[label_] == "-") row.problem = "has no gold label: it is \"-\"";
    return true;
  }

 private:
  std::unique_ptr<RowReader> rows_;
  std::size_t label_;  // in Row::values
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  const Columns found = columns_of(file, format.encoding);
  std::vector<std::string> in_file;
  for (const std::size_t index : column_indices(file, *format.format, found.names, columns)) {
    in_file.push_back(found.in_file[index]);
  }
  RowFormat rows = format;
  rows.header = found.header;
  const auto gold = std::find(in_file.begin(), in_file.end(), "gold_label");
  const auto label = static_cast<std::size_t>(gold - in_file.begin());
  std::unique_ptr<RowReader> reader = open_delimited_rows(file, rows, in_file);
  if (gold == in_file.end()) return reader;
  return std::make_unique<GoldRows>(std::move(reader), label);
}

}  // namespace

const TextFormat& glue_format() {
  static const TextFormat format{.name = "glue",
                                 .title = "GLUE",
                                 .columns = {"text", "text_pair", "label"},
                                 .delimiter = '\t',
                                 .quotes = false,
                                 .open = open};
  return format;
}

}  // namespace bert_hpc::prep
