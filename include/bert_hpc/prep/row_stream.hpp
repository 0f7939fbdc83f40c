// All rows of all source files in order, each with its number over all files, its texts joined and its label trimmed.
// Every pass over the text goes through this, so all passes and all ranks see the same rows.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/prep/prep_config.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"

namespace bert_hpc::prep {

enum class Split : std::uint8_t { train, validation, test };
inline constexpr int split_count = 3;
const char* to_string(Split split);

/// Between the cells of several label columns, in the text of a row's label.
inline constexpr char value_end = '\x1F';

/// One row as the source gives it. Views last until the next row.
struct SourceRow {
  std::int64_t index = 0;   ///< from 0 over all files
  std::int64_t number = 0;  ///< in its file, from 1
  std::int64_t line = 0;    ///< on which it begins, from 1; 0 if the format has no lines
  std::size_t file = 0;     ///< index into RowStream::files()
  std::string_view text, text_pair, label;
  std::span<const std::string_view> negatives;  ///< those of [source] negatives that are not empty
  std::string_view id;                          ///< [source] id; empty if there is none
  std::string_view query;                       ///< of candidates: the id of its query, or without ids its text
  bool own_query = false;                       ///< Row::own_query
  std::string note;                             ///< Row::note
  std::string_view group;                       ///< [split] group, trimmed; empty if there is none
  std::string_view record;                      ///< csv, tsv: the row's bytes as the file has them
  std::string problem;                          ///< why it cannot be read; empty if it can
  bool too_wide = false;                        ///< because it has more columns than the header
  std::string missing_column;                   ///< name of a column asked for that the row lacks; empty if none
  std::span<const std::string> keys;            ///< jsonl: what it has instead
  bool malformed = false;  ///< held bytes that are not UTF-8, beyond those that the views still hold
};

class RowStream {
 public:
  /// Opens the first file; others when their turn comes. `config` must outlive it. Throws as open_rows does.
  explicit RowStream(const PrepConfig& config);

  bool next(SourceRow& row);

  struct File {
    std::string path;
    bool is_divided;  ///< by [split]; else all rows belong to `split`
    Split split;
  };
  const std::vector<File>& files() const { return files_; }
  /// Lines of the rows so far that are no words: comments, of CoNLL-U multiword tokens and empty nodes.
  std::int64_t skipped_lines() const { return skipped_lines_; }

 private:
  void open(std::size_t file);
  std::string_view join(std::size_t first, std::size_t count, SourceRow& out, std::string& storage);
  std::string_view label(SourceRow& out);
  std::span<const std::string_view> negatives(SourceRow& out);

  const PrepConfig& config_;
  std::vector<File> files_;
  RowFormat format_;
  /// Texts, second texts, negatives, labels, id, query's id, group; the group in files that are divided only.
  std::vector<std::string> columns_;
  std::size_t text_columns_, pair_columns_, negative_columns_, label_columns_;
  bool has_candidates_, names_rows_, has_words_;
  std::string label_end_;
  bool ids_, queries_, groups_;
  std::unique_ptr<RowReader> reader_;
  std::size_t file_ = 0;
  std::int64_t index_ = 0, skipped_lines_ = 0;
  Row row_;
  std::string text_, text_pair_, label_;
  std::vector<std::string_view> negatives_;
};

}  // namespace bert_hpc::prep
