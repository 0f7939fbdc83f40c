// FASTA (Pearson and Lipman 1988, doi:10.1073/pnas.85.8.2444): a line ">id description", then the letters of the
// molecule on any number of lines. Lines that begin with ";" are comments. A row is a molecule; letters keep their
// case.
#include <algorithm>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "column_words.hpp"

namespace bert_hpc::prep {
namespace {

constexpr std::string_view blanks = " \t\r\v\f";

class FastaRows : public RowReader {
 public:
  FastaRows(const std::string& file, const RowFormat& format, const std::vector<std::string>& columns)
      : source_(file, format.encoding),
        indices_(column_indices(file, *format.format, format.format->columns, columns)) {
    std::string_view line;
    while (source_.next_filled_line(line, begin_) && line.front() == ';') continue;
    if (!is_blank(line)) take_header(line);
    if (has_next_) return;
    throw core::Error(core::ExitCode::data, file + ": line " + std::to_string(begin_) +
                                                " does not begin with \">\", as the first record of FASTA does. For "
                                                "plain sequences, one a line, set [source] format = \"text\".");
  }

  bool next(Row& row) override {
    if (!has_next_) return false;
    has_next_ = false;
    row.number = ++number_;
    row.line = begin_;
    row.problem.clear();
    const std::size_t end = std::min(header_.find_first_of(blanks), header_.size());
    id_ = header_.substr(0, end);
    description_ = core::trimmed(std::string_view(header_).substr(end));
    read_letters(row);
    const std::string_view columns[] = {id_, description_, letters_};
    row.values.clear();
    for (const std::size_t index : indices_) row.values.emplace_back(columns[index]);
    return true;
  }

 private:
  void take_header(std::string_view line) {
    has_next_ = line.front() == '>';
    if (has_next_) header_ = line.substr(1);
  }

  /// To the next record or the file's end.
  void read_letters(Row& row) {
    letters_.clear();
    std::string_view line;
    while (!has_next_ && source_.next_filled_line(line, begin_)) {
      take_header(line);
      if (has_next_ || line.front() == ';') continue;
      if (letters_.size() + line.size() > longest_record) row.problem = "is longer than 64 MiB";
      if (!row.problem.empty()) continue;
      std::copy_if(line.begin(), line.end(), std::back_inserter(letters_),
                   [](char letter) { return blanks.find(letter) == std::string_view::npos; });
    }
  }

  LineSource source_;
  std::vector<std::size_t> indices_;  // of the columns asked for
  std::string header_;                // of the record that was begun, without ">"
  bool has_next_ = false;
  std::int64_t begin_ = 0;  // the line of that header
  std::int64_t number_ = 0;
  std::string id_, description_, letters_;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<FastaRows>(file, format, columns);
}

}  // namespace

const TextFormat& fasta_format() {
  static const TextFormat format{
      .name = "fasta", .title = "FASTA", .columns = {"id", "description", "text"}, .open = open};
  return format;
}

}  // namespace bert_hpc::prep
