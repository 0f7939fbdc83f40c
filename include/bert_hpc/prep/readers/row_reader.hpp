// Rows of text files with the columns that were asked for: CSV and TSV (RFC 4180, read leniently as Python's csv does),
// JSON Lines, the JSON of SQuAD, and plain text. Streaming: memory is bounded by the longest row (of SQuAD: article).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

enum class TextFormat { csv, tsv, jsonl, text, squad };
enum class TextEncoding { utf8, latin1 };
enum class TextUnit { line, paragraph };  ///< what a row of plain text is; blank lines part paragraphs

struct RowFormat {
  TextFormat format = TextFormat::csv;
  TextEncoding encoding = TextEncoding::utf8;
  bool header = true;              ///< csv, tsv: the first row names the columns
  char delimiter = ',';            ///< csv, tsv
  bool quotes = true;              ///< csv, tsv: "…" may hold delimiters and line feeds, "" is a quote
  int column_limit = 0;            ///< csv, tsv: the last of so many columns takes the rest of the row; 0: no limit
  bool extra_columns = false;      ///< csv, tsv: a row may have more columns than the header
  TextUnit unit = TextUnit::line;  ///< text
};

/// Where a row that was read comes from and what is in it. Views last until the next row is read.
struct Row {
  std::int64_t number = 0;                              ///< in its file, from 1, without the header
  std::int64_t line = 0;                                ///< on which it (squad: its article) begins, from 1
  std::vector<std::optional<std::string_view>> values;  ///< the columns asked for; none where the row lacks one
  std::vector<std::string> keys;                        ///< jsonl: of a row that lacks a column; else empty
  bool malformed = false;                               ///< jsonl: held bytes that are not UTF-8; others keep theirs
  std::string problem;                                  ///< why the row cannot be read; empty if it can
  bool too_wide = false;                                ///< the problem is that it has more columns than the header
  std::string_view record;                              ///< csv, tsv: the row's bytes as the file has them
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  /// False after the last row.
  virtual bool next(Row& row) = 0;
};

/// Opens `file`. `columns` are names of the header or of JSON keys, or column numbers from 1 (a header's name comes
/// first; without a header only numbers). A null of JSON is an empty text. Plain text has one column whatever it is
/// called. A row of SQuAD is a question, with the columns that squad_rows.hpp has. Throws as LineSource does,
/// Error(data) for a column that is not in the header (saying which are), Error(data) at reading for a quote that is
/// never closed and for what is no SQuAD.
std::unique_ptr<RowReader> open_rows(const std::string& file, const RowFormat& format,
                                     const std::vector<std::string>& columns);

}  // namespace bert_hpc::prep
