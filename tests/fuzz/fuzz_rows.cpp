// CSV, TSV, JSONL, plain text and CoNLL's columns. The first byte says how the rest is to be read.
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "fuzz.hpp"

using namespace bert_hpc;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  using prep::RowFormat;
  RowFormat format;
  const int choice = data[0];
  constexpr const char* names[] = {"csv", "tsv", "jsonl", "text"};
  const bool is_conll = (choice & 3) == 3 && (choice & 16) != 0;
  format.format = prep::find_text_format(is_conll ? "conll" : names[choice & 3]);
  const bool has_lists = (choice & 64) != 0;
  format.encoding = (choice & 4) == 0 ? "utf-8" : has_lists ? "gb18030" : "latin-1";
  format.header = (choice & 8) == 0;
  format.quotes = (choice & 16) == 0;
  format.delimiter = format.format->delimiter;
  format.column_limit = (choice & 32) != 0 ? 3 : 0;
  format.extra_columns = (choice & 128) != 0;
  format.unit = (choice & 64) != 0 ? prep::TextUnit::paragraph : prep::TextUnit::line;
  std::vector<std::string> columns = {"text", "label"};
  if (!format.header) columns = {"1", "2"};
  if (!format.format->has_columns) columns = {"text"};
  if (has_lists) {
    format.list_columns = columns;
    format.list_ends = (choice & 128) != 0;
    format.list_separator = format.list_ends ? std::string(1, prep::word_end) : ",";
  }
  if (is_conll) columns = {"tokens", "tags", "document"};
  const fuzz::File file(fuzz::text(data + 1, size - 1));
  fuzz::accepts([&] {
    const auto rows = prep::open_rows(file.path(), format, columns);
    prep::Row row;
    std::int64_t number = 0, line = 0;
    std::size_t bytes = 0;
    while (rows->next(row)) {
      fuzz::require(row.number == ++number, "rows are numbered one after the other");
      const bool shares_lines = format.format->name == std::string("jsonl");  // a list may stand on one line
      fuzz::require(row.line > line || (row.line == line && (number == 1 || shares_lines)),
                    "rows begin on ascending lines");
      line = row.line;
      fuzz::require(row.values.size() == columns.size() || !row.problem.empty(), "a row has the columns asked for");
      for (std::size_t i = 0; i < row.values.size(); ++i) {
        const auto& value = row.values[i];
        if (!value || (is_conll && i == 2)) continue;  // the name of a document is not the file's
        for (const char letter : *value) bytes += letter != 0;
      }
    }
    const bool gzip = size > 2 && data[1] == 0x1F && data[2] == 0x8B;  // which makes of a byte 1,032 at most
    const std::size_t most = gzip ? 1032 * size : size;
    fuzz::require(bytes <= 8 * most, "rows hold what the file holds");  // \uXXXX, Latin-1 and lists grow by less
  });
  return 0;
}
