// Columns of the CoNLL shared tasks (Tjong Kim Sang and De Meulder 2003, doi:10.3115/1119176.1119195): a token a line
// with its annotations, a blank line after each sentence, lines that begin with -DOCSTART- before each document. A line
// with a tab has its columns between tabs, another between blanks. Comments before a sentence ("# sent_id = 3") are
// skipped. A row is a sentence; its columns are texts in words
// (prep/word_rows.hpp).
#include <algorithm>

#include "bert_hpc/core/conll_line.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "column_words.hpp"

namespace bert_hpc::prep {
namespace {

using core::Error;
using core::ExitCode;

constexpr std::string_view document_line = "-DOCSTART-";
constexpr const char *first_column = "tokens", *last_column = "tags", *document_column = "document";

constexpr std::size_t conllu_columns = 10;

struct Shape {
  std::size_t columns = 0;   // 0: the file has no token
  bool is_numbered = false;  // the first column numbers the words of the first sentence, which has several
  bool is_conllu = false;
  core::ConllShape of_tokens;
};

/// Whether a line's first column is that of a multiword token ("3-4") or of an empty node ("2.1") of CoNLL-U.
bool is_no_word(std::string_view id) {
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const std::size_t first = static_cast<std::size_t>(std::find_if_not(id.begin(), id.end(), is_digit) - id.begin());
  return first > 0 && first + 1 < id.size() && (id[first] == '-' || id[first] == '.') &&
         std::all_of(id.begin() + static_cast<std::ptrdiff_t>(first) + 1, id.end(), is_digit);
}

/// Shape of the first token's line, which is the first line that cannot be a comment, or else the first line.
Shape shape_of(const std::string& file, const std::string& encoding) {
  LineSource source(file, encoding);
  std::string_view line;
  std::vector<std::string_view> columns;
  std::size_t of_comments = 0;
  std::int64_t words = 0;  // of the first sentence
  Shape shape;
  while (source.next_line(line) && !(is_blank(line) && words > 0)) {
    if (is_blank(line) || line.starts_with(document_line)) continue;
    core::split_conll_line(line, columns);
    if (words > 0) {
      if (shape.is_conllu && is_no_word(columns.front())) continue;
      shape.is_numbered = columns.front() == std::to_string(++words);
      if (!shape.is_numbered) break;
    } else if (!core::may_be_conll_comment(line)) {
      const bool is_no = columns.size() == conllu_columns && is_no_word(columns.front());
      shape = {.columns = columns.size(),
               .is_numbered = false,
               .is_conllu = columns.size() == conllu_columns && (is_no || columns.front() == "1"),
               .of_tokens = core::ConllShape(line, columns)};
      if (is_no) continue;
      if (columns.front() != "1") break;
      words = 1;
    } else if (of_comments == 0) {
      of_comments = columns.size();
    }
  }
  if (shape.columns == 0) shape.columns = of_comments;
  return shape;
}

class ConllRows : public RowReader {
 public:
  ConllRows(const std::string& file, const RowFormat& format, const std::vector<std::string>& columns)
      : source_(file, format.encoding), shape_(shape_of(file, format.encoding)), width_(shape_.columns) {
    if (width_ == 0) throw Error(ExitCode::data, file + ": has no tokens; write a token and its tag on each line.");
    std::vector<std::string> names = {first_column, document_column};
    if (width_ > 1) names.insert(names.begin() + 1, last_column);
    for (std::size_t i = 1; i <= width_; ++i) names.push_back(std::to_string(i));
    for (const std::size_t index : column_indices(file, *format.format, names, columns)) {
      const std::string& name = names[index];
      if (name == first_column && width_ > 2 && (shape_.is_conllu || shape_.is_numbered)) refuse_numbers();
      indices_.push_back(name == document_column ? document
                         : name == first_column  ? 0
                         : name == last_column   ? width_ - 1
                                                 : index - (names.size() - width_));
    }
    storage_.resize(columns.size());
  }

  bool next(Row& row) override {
    row.problem.clear();
    row.skipped_lines = 0;
    row.malformed = false;
    for (std::string& text : storage_) text.clear();
    row.line = 0;
    std::string_view line;
    for (std::int64_t number = source_.line(); source_.next_line(line); number = source_.line()) {
      const bool is_document = line.starts_with(document_line);
      if (is_document || is_blank(line)) {
        if (is_document) ++documents_;
        if (row.line > 0) return finish(row);
        continue;
      }
      core::split_conll_line(line, cells_);
      const bool is_comment = row.line == 0 && shape_.of_tokens.is_comment(line, cells_);
      if (is_comment || (shape_.is_conllu && is_no_word(cells_.front()))) {
        ++row.skipped_lines;
        continue;
      }
      if (row.line == 0) {
        row.line = number;
        document_ = documents_;
      }
      add_token(number, row);
    }
    return row.line > 0 && finish(row);
  }

 private:
  static constexpr std::size_t document = static_cast<std::size_t>(-1);

  [[noreturn]] void refuse_numbers() const {
    throw Error(ExitCode::data,
                source_.file() + ": numbers the words of a sentence in its first column: " +
                    (shape_.is_conllu ? "of CoNLL-U, set [source] text = \"2\" for the words, and label "
                                        "= \"4\" for their parts of speech, or another column."
                                      : "set [source] text to the number of the column with the words, "
                                        "such as \"2\", and label to that of the tags."));
  }

  /// cells_: the columns of the line.
  void add_token(std::int64_t number, Row& row) {
    if (cells_.size() != width_) {
      if (row.problem.empty()) {
        row.problem = "has " + core::counted(std::ssize(cells_), "column") + " in line " + std::to_string(number) +
                      ", and the file's first token " + std::to_string(width_);
      }
      return;
    }
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      if (indices_[i] == document) continue;
      storage_[i] += cells_[indices_[i]];
      storage_[i] += word_end;
      if (storage_[i].size() > longest_record) {
        throw Error(ExitCode::data, source_.file() + ": line " + std::to_string(row.line) +
                                        ": the sentence is longer than 64 MiB; are blank lines between sentences "
                                        "missing?");
      }
    }
  }

  bool finish(Row& row) {
    row.number = ++number_;
    row.values.clear();
    for (std::size_t i = 0; i < indices_.size(); ++i) {
      // Before the first line of a document a sentence is a document of its own.
      if (indices_[i] == document && document_ > 0) storage_[i] = source_.file() + ':' + std::to_string(document_);
      row.values.emplace_back(storage_[i]);
    }
    return true;
  }

  LineSource source_;
  Shape shape_;
  std::size_t width_;
  std::vector<std::size_t> indices_;  // of the columns asked for
  std::vector<std::string> storage_;
  std::vector<std::string_view> cells_;
  std::int64_t number_ = 0, documents_ = 0, document_ = 0;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<ConllRows>(file, format, columns);
}

}  // namespace

const TextFormat& conll_format() {
  static const TextFormat format{.name = "conll", .title = "CoNLL's columns", .group = document_column, .open = open};
  return format;
}

}  // namespace bert_hpc::prep
