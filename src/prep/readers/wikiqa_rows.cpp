// WikiQA (Yang, Yih, Meek 2015, doi:10.18653/v1/D15-1237): tab-separated rows of a question and one sentence that may
// answer it, with a header and without quoting rules. A question's candidates have one question_id. Files to be
// predicted may lack the last column, Label.
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "column_words.hpp"
#include "delimited_rows.hpp"

namespace bert_hpc::prep {
namespace {

/// In the order of the format's columns.
const std::vector<std::string> header = {"QuestionID", "Question", "DocumentID", "DocumentTitle",
                                         "SentenceID", "Sentence", "Label"};

/// Columns of the file: all, or all but the label. Throws Error(data) where its header is not WikiQA's.
std::size_t columns_of(const std::string& file, const std::string& encoding) {
  LineSource source(file, encoding);
  std::string_view line;
  source.next_line(line);
  std::string text;
  std::size_t columns = 0;
  for (const std::string& name : header) {
    text += (columns++ > 0 ? "\t" : "") + name;
    if (columns + 1 >= header.size() && line == text) return columns;
  }
  throw core::Error(core::ExitCode::data,
                    file + ": does not begin with the header of WikiQA, " + core::listed(header, "and", false) +
                        " between tabs; only Label may be missing. For another table set [source] format = \"tsv\".");
}

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  std::vector<std::string> names = format.format->columns;
  names.resize(columns_of(file, format.encoding));
  std::vector<std::string> in_header;
  for (const std::size_t index : column_indices(file, *format.format, names, columns)) {
    in_header.push_back(header[index]);
  }
  return open_delimited_rows(file, format, in_header);
}

}  // namespace

const TextFormat& wikiqa_format() {
  static const TextFormat format{
      .name = "wikiqa",
      .title = "WikiQA",
      .columns = {"question_id", "question", "document_id", "document_title", "sentence_id", "sentence", "label"},
      .group = "question_id",
      .ranking = {"question", "sentence", "question_id", "sentence_id"},
      .delimiter = '\t',
      .quotes = false,
      .open = open};
  return format;
}

}  // namespace bert_hpc::prep
