// MS MARCO's passage ranking (Nguyen et al. 2016, arXiv:1611.09268): tab-separated files without header and quotes.
// Their number of columns says which they are.
//   query, positive, negative (triples.train.small.tsv): two rows of one query each, with the labels 1 and 0. The id of
//     the query is the line's number, those of the passages are 1 and 2: the file has no others.
//   query's id, passage's id, query, passage (top1000.dev): the labels are the levels of [source] qrels, 0 of what is
//     not judged. Without qrels there is no label.
#include <algorithm>
#include <array>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/readers/line_source.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "column_words.hpp"
#include "delimited_rows.hpp"
#include "qrels.hpp"

namespace bert_hpc::prep {
namespace {

enum Column : std::size_t { query_id, passage_id, query, passage, label };

constexpr std::size_t triple_columns = 3, candidate_columns = 4;

std::size_t columns_of(const std::string& file, const std::string& encoding) {
  LineSource source(file, encoding);
  std::string_view line;
  source.next_line(line);
  const auto columns = static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t')) + 1;
  if (columns == triple_columns || columns == candidate_columns) return columns;
  throw core::Error(core::ExitCode::data,
                    file + ", line 1: has " + std::to_string(columns) +
                        " columns between tabs. MS MARCO's files have three (query, positive, negative) or four "
                        "(query's id, passage's id, query, passage). For another table set [source] format = \"tsv\".");
}

/// The columns that were asked for, of a record with all columns of the file.
class MsmarcoRows : public RowReader {
 public:
  MsmarcoRows(std::unique_ptr<RowReader> records, std::size_t columns, std::vector<std::size_t> wanted)
      : records_(std::move(records)), columns_(columns), wanted_(std::move(wanted)) {}

 protected:
  bool read_record() {
    if (!records_->next(record_)) return false;
    const auto columns = static_cast<std::size_t>(std::count(record_.record.begin(), record_.record.end(), '\t')) + 1;
    if (record_.problem.empty() && columns != columns_) {
      record_.problem =
          "has " + std::to_string(columns) + " columns between tabs, the first " + std::to_string(columns_);
    }
    return true;
  }
  std::string_view field(std::size_t index) const { return record_.values[index].value_or(std::string_view{}); }
  const Row& record() const { return record_; }
  /// `values`: by Column.
  void fill(Row& row, std::int64_t number, const std::array<std::string_view, label + 1>& values) const {
    row = record_;
    row.number = number;
    row.values.clear();
    for (const std::size_t column : wanted_) {
      row.values.push_back(row.problem.empty() ? std::optional(values[column]) : std::nullopt);
    }
  }

 private:
  std::unique_ptr<RowReader> records_;
  std::size_t columns_;
  std::vector<std::size_t> wanted_;
  Row record_;
};

class TripleRows : public MsmarcoRows {
 public:
  using MsmarcoRows::MsmarcoRows;

  bool next(Row& row) override {
    is_second_ = !is_second_;
    if (!is_second_ && !read_record()) return false;
    line_ = std::to_string(record().line);
    fill(row, ++number_, {line_, is_second_ ? "2" : "1", field(0), field(is_second_ ? 2 : 1), is_second_ ? "0" : "1"});
    row.own_query = true;
    return true;
  }

 private:
  bool is_second_ = true;
  std::int64_t number_ = 0;
  std::string line_;
};

class CandidateRows : public MsmarcoRows {
 public:
  CandidateRows(std::unique_ptr<RowReader> records, std::size_t columns, std::vector<std::size_t> wanted,
                const std::string& qrels)
      : MsmarcoRows(std::move(records), columns, std::move(wanted)) {
    if (!qrels.empty()) qrels_.emplace(qrels);
  }

  bool next(Row& row) override {
    if (!read_record()) return false;
    std::int32_t level = 0;
    if (qrels_) {
      if (const auto index = qrels_->find(field(0), field(1))) level = qrels_->all()[*index].level;
    }
    level_ = std::to_string(level);
    fill(row, record().number, {field(0), field(1), field(2), field(3), level_});
    return true;
  }

 private:
  std::optional<Qrels> qrels_;
  std::string level_;
};

std::unique_ptr<RowReader> open(const std::string& file, const RowFormat& format,
                                const std::vector<std::string>& columns) {
  const std::size_t count = columns_of(file, format.encoding);
  std::vector<std::string> names = format.format->columns;
  if (count == candidate_columns && format.qrels.empty()) names.pop_back();
  std::vector<std::size_t> wanted = column_indices(file, *format.format, names, columns);
  std::vector<std::string> in_file;
  for (std::size_t i = 1; i <= count; ++i) in_file.push_back(std::to_string(i));
  RowFormat records = format;
  records.header = false;
  std::unique_ptr<RowReader> reader = open_delimited_rows(file, records, in_file);
  if (count == triple_columns) return std::make_unique<TripleRows>(std::move(reader), count, std::move(wanted));
  return std::make_unique<CandidateRows>(std::move(reader), count, std::move(wanted), format.qrels);
}

}  // namespace

const TextFormat& msmarco_format() {
  static const TextFormat format{.name = "msmarco",
                                 .title = "MS MARCO",
                                 .columns = {"query_id", "passage_id", "query", "passage", "label"},
                                 .group = "query",
                                 .ranking = {"query", "passage", "query_id", "passage_id"},
                                 .takes_qrels = true,
                                 .delimiter = '\t',
                                 .quotes = false,
                                 .open = open};
  return format;
}

}  // namespace bert_hpc::prep
