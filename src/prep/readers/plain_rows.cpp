// Plain text by lines, by paragraphs, or by files.
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {
namespace {

class PlainRows : public RowReader {
 public:
  PlainRows(const std::string& file, const RowFormat& format, std::size_t columns)
      : source_(file, format.encoding), format_(format), columns_(columns) {}

  bool next(Row& row) override {
    std::string_view line;
    if (!source_.next_filled_line(line, row.line)) return false;
    row.problem.clear();
    text_ = line;
    while (format_.unit != TextUnit::line && source_.next_line(line) && !ends_row(line)) {
      if (text_.size() + line.size() > longest_record) row.problem = "is longer than 64 MiB";
      if (!row.problem.empty()) continue;  // to the end of the row
      text_ += '\n';
      text_ += line;
    }
    row.number = ++number_;
    row.values.assign(columns_, std::string_view(text_));
    return true;
  }

 private:
  bool ends_row(std::string_view line) const { return format_.unit == TextUnit::paragraph && is_blank(line); }

  LineSource source_;
  RowFormat format_;
  std::size_t columns_;
  std::string text_;
  std::int64_t number_ = 0;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  return std::make_unique<PlainRows>(file, format, columns.size());
}

}  // namespace

const TextFormat& plain_format() {
  static const TextFormat format{
      .name = "text", .title = "plain text", .has_columns = false, .takes_unit = true, .open = open};
  return format;
}

}  // namespace bert_hpc::prep
