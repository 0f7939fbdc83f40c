#include "sentence_rows.hpp"

#include <algorithm>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/word_rows.hpp"

namespace bert_hpc::prep {
namespace {

class SentenceRows : public RowReader {
 public:
  /// rows: with the sentence column behind `columns`.
  SentenceRows(std::unique_ptr<RowReader> rows, const RowFormat& format, const std::vector<std::string>& columns)
      : rows_(std::move(rows)), columns_(columns), storage_(columns.size()) {
    for (const std::string& column : columns) {
      const auto& lists = format.list_columns;
      in_words_.push_back(std::find(lists.begin(), lists.end(), column) != lists.end());
    }
  }

  bool next(Row& row) override {
    if (!has_word_ && !read_word()) return false;
    row.number = ++number_;
    row.line = word_.line;
    row.problem.clear();
    row.note.clear();
    row.record = {};
    for (std::string& text : storage_) text.clear();
    sentence_ = sentence();
    add_word(row, true);
    while (read_word() && (sentence().empty() || sentence() == sentence_)) add_word(row, false);
    row.too_wide = false;
    row.values.clear();
    for (const std::string& text : storage_) row.values.emplace_back(text);
    return true;
  }

 private:
  bool read_word() { return has_word_ = rows_->next(word_); }
  std::string_view sentence() const { return core::trimmed(word_.values.back().value_or(std::string_view{})); }

  void add_word(Row& row, bool is_first) {
    if (!word_.problem.empty()) return reject(row, word_.problem);
    if (!word_.note.empty()) row.note = position() + " " + word_.note;
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      if (!in_words_[i] && !is_first) continue;
      const std::string_view cell = core::trimmed(word_.values[i].value_or(std::string_view{}));
      if (in_words_[i] && cell.empty()) return reject(row, "has nothing in \"" + columns_[i] + '"');
      storage_[i] += cell;
      if (in_words_[i]) storage_[i] += word_end;
      if (storage_[i].size() > longest_record) return reject(row, "ends a sentence that is longer than 64 MiB");
    }
  }

  /// "line 7" of the word, or "row 6" if the format has no lines.
  std::string position() const {
    return word_.line > 0 ? "line " + std::to_string(word_.line) : "row " + std::to_string(word_.number);
  }

  void reject(Row& row, const std::string& problem) const {
    if (row.problem.empty()) row.problem = "is a sentence whose " + position() + ' ' + problem;
  }

  std::unique_ptr<RowReader> rows_;
  std::vector<std::string> columns_;
  std::vector<bool> in_words_;  // by column: words or tags
  std::vector<std::string> storage_;
  std::string sentence_;   // of the row at hand
  Row word_;               // the next one
  bool has_word_ = false;  // word_ has been read and not been used
  std::int64_t number_ = 0;
};

}  // namespace

std::unique_ptr<RowReader> open_sentence_rows(const std::string& file, const RowFormat& format,
                                              const std::vector<std::string>& columns) {
  RowFormat words = format;
  words.sentence.clear();
  words.list_columns.clear();
  std::vector<std::string> all = columns;
  all.push_back(format.sentence);
  return std::make_unique<SentenceRows>(words.format->open(file, words, all), format, columns);
}

}  // namespace bert_hpc::prep
