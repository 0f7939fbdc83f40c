// Rows of files with the columns that were asked for, streaming: memory is bounded by the longest row (of SQuAD:
// article). A format is one file in src/prep/readers and one line in text_formats().
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

struct TextFormat;

enum class TextUnit { line, paragraph, file };  ///< what a row of plain text is; blank lines part paragraphs

/// How files are read. Members that a format does not take (TextFormat) mean nothing to it.
struct RowFormat {
  const TextFormat* format = nullptr;
  std::string encoding = "utf-8";           ///< a name that is known (text_decoder.hpp)
  bool header = true;                       ///< the first row names the columns
  char delimiter = ',';                     ///< between columns
  bool quotes = true;                       ///< "…" may hold delimiters and line feeds, "" is a quote
  int column_limit = 0;                     ///< the last of so many columns takes the rest of the row; 0: no limit
  bool extra_columns = false;               ///< a row may have more columns than the header
  TextUnit unit = TextUnit::line;           ///< what a row is
  std::vector<std::string> list_columns{};  ///< jsonl: may be arrays, read as one text with list_separator
  std::string list_separator{};             ///< between the strings of an array; empty: there are no lists
  bool list_ends = false;                   ///< and behind the last one; then they may be whole numbers
  std::size_t list_labels = 0;              ///< names that lists of labels are made of, if they are known; else 0
  std::string sentence{};                   ///< column with the sentence of a word a row; empty: a row is a text
  std::string qrels{};                      ///< file of judgements (qrels.hpp); empty: none
  std::string named_column{};               ///< parquet: its numbers are read as the names that the file has for them
};

/// A row that was read: its position and its values. Views last until the next row is read.
struct Row {
  std::int64_t number = 0;                              ///< in its file, from 1, without the header
  std::int64_t line = 0;                                ///< on which it (squad: its article) begins, from 1; parquet: 0
  std::vector<std::optional<std::string_view>> values;  ///< the columns asked for; none if the row lacks one
  std::vector<std::string> keys;                        ///< jsonl: of a row that lacks a column; else empty
  bool malformed = false;                               ///< jsonl: held bytes that are not UTF-8; others keep theirs
  std::string problem;                                  ///< why the row cannot be read; empty if it can
  std::string note;  ///< tables, squad: what is wrong with a row that can be used, and how it is read; or ""
  std::int64_t skipped_lines = 0;  ///< conll: before the row's end, lines that are no words; of no row after the last
  bool own_query = false;          ///< the id of its query counts in this file alone
  bool too_wide = false;           ///< the problem is that it has more columns than the header
  std::string_view record;         ///< tables: the row's bytes as the file has them
};

class RowReader {
 public:
  virtual ~RowReader() = default;
  /// False after the last row.
  virtual bool next(Row& row) = 0;
};

/// Names of columns that a task which ranks candidates reads where the input does not say; "": none.
struct RankingColumns {
  const char* query = "query";
  const char* passage = "passage";
  const char* query_id = "";
  const char* passage_id = "";
};

/// What prep knows of a format; its file defines it.
struct TextFormat {
  const char* name;                       ///< [source] format
  const char* title;                      ///< of its files, in words: "SQuAD's JSON"
  bool has_columns = true;                ///< false: each row is one text, without a label
  std::vector<std::string> columns = {};  ///< where all files have the same; else empty
  const char* group = "";                 ///< column whose equal values belong together: default of [split] group
  RankingColumns ranking = {};
  bool takes_qrels = false;       ///< [source] qrels
  bool takes_table_keys = false;  ///< header, delimiter, quotes, columns, extra_columns of [source]
  char delimiter = ',';           ///< default
  bool quotes = true;             ///< default
  bool takes_unit = false;        ///< [source] unit
  bool is_text = true;            ///< files are lines in [source] encoding
  bool holds_ids = false;         ///< texts are ids of tokens between blanks
  std::string lacks = {};         ///< why this build cannot open files, to follow the format's name; empty if it can

  /// Names of the numbers in a column, in the order 0, 1, …, if `file` has names for them. Throws as open_rows() does.
  /// Null if no file of the format has names.
  std::vector<std::string> (*label_names)(const std::string& file, const std::string& column) = nullptr;

  /// Opens `file`. `columns` are among `columns` above, where there are any, else what the file calls them. Throws as
  /// open_rows() does.
  std::unique_ptr<RowReader> (*open)(const std::string& file, const RowFormat& format,
                                     const std::vector<std::string>& columns);
};

std::span<const TextFormat* const> text_formats();
/// The format of this name; null if there is none.
const TextFormat* find_text_format(std::string_view name);
/// Names of all formats, or of those for which `which` is true.
std::vector<std::string> format_names();
std::vector<std::string> format_names(bool TextFormat::*which);

/// Opens `file`, of format.format. `columns` are names of the header or of JSON keys, or column numbers from 1 (a
/// header's name comes first; without a header only numbers). A null of JSON is an empty text. A file without columns
/// has one, whatever it is called. Throws as LineSource does, Error(data) for a column that the file lacks (saying
/// which it has), Error(data) at reading where the file is damaged: a quote that is never closed, what is no SQuAD.
std::unique_ptr<RowReader> open_rows(const std::string& file, const RowFormat& format,
                                     const std::vector<std::string>& columns);

}  // namespace bert_hpc::prep
