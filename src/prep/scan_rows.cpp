// The first pass: judges rows, counts and numbers labels.
#include "bert_hpc/prep/scan_rows.hpp"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "bert_hpc/tokenize/utf8.hpp"
#include "label_order.hpp"
#include "label_rules.hpp"
#include "queries.hpp"
#include "rejects.hpp"
#include "row_labels.hpp"
#include "splits.hpp"

namespace bert_hpc::prep {

using core::ExitCode;

namespace {

/// "a.csv, row 17, line 20"
std::string location_of(const SourceRow& row, const std::string& file) {
  return file + ", row " + std::to_string(row.number) + (row.line > 0 ? ", line " + std::to_string(row.line) : "");
}

/// Whether the texts of the row have more characters together. Bytes, which are no fewer, are counted first.
bool characters_exceed(std::int64_t limit, const SourceRow& row) {
  const auto sum = [&](const auto& size_of) {
    std::int64_t all = size_of(row.text) + size_of(row.text_pair);
    for (const std::string_view text : row.negatives) all += size_of(text);
    return all;
  };
  return sum([](std::string_view text) { return std::ssize(text); }) > limit && sum(tokenize::count_characters) > limit;
}

/// The pass over the text: statuses but for rare labels and splits, labels numbered as they come.
class Scan {
 public:
  Scan(const PrepConfig& config, const RowVisit& visit) : config_(config), visit_(visit) {
    if (config.has_candidates()) queries_.emplace(config);
  }

  RowTable run() {
    RowStream stream(config_);
    SourceRow row;
    while (stream.next(row)) {
      require_numbers(row.index + 1, "row");
      const auto& file = stream.files()[row.file];
      if (queries_) query_ = queries_->query_of(row, file);
      const RowStatus status = judge(row, file);
      table_.status.push_back(is_kept(status) ? static_cast<RowStatus>(file.split) : status);
      if (file.is_divided) rows_to_split_ = row.index + 1;  // these files come first
      labels_.end_row();
      if (!config_.split.group.empty()) table_.groups.push_back(group_of(row));
      if (queries_) table_.queries.push_back(query_);
      if (queries_ && is_kept(status)) queries_->keep(query_, row);
      note(status, row, file.path);
      if (missing_.all().size() == most_missing) break;
      if (visit_) visit_(row, status, file.path);
    }
    table_.skipped_lines = stream.skipped_lines();
    missing_.throw_if_any(ExitCode::data,
                          "Rows lack their text or label, and [filter] drop_missing is false (the first ones):");
    refuse_many_rejects(table_, config_);
    reject_undecided(table_, config_);
    sample_rows(table_, config_, rows_to_split_);
    if (has_labels_ && config_.kind().has_label_names()) settle_labels(table_, config_);
    split_rows(table_, config_, rows_to_split_);
    if (queries_) {
      require_whole_queries(table_, config_, rows_to_split_);
      queries_->finish(table_);
    }
    refuse_many_rejects(table_, config_);
    table_.shrink_to_fit();
    return std::move(table_);
  }

 private:
  /// A row without a value is a group of its own.
  static std::uint64_t group_of(const SourceRow& row) {
    return row.group.empty() ? core::mix64(static_cast<std::uint64_t>(row.index)) : core::fnv1a_64(row.group);
  }

  /// Predictions of a split name its rows by their ids, so that these are unique within a split. Splits may share ids.
  /// A divided file's row may come into each split that has a fraction.
  bool is_repeated(const SourceRow& row, const RowStream::File& file) {
    if (row.id.empty()) return false;
    const std::uint64_t id = queries_ ? Queries::candidate_of(query_, row) : core::fnv1a_64(row.id);
    const double fractions[split_count] = {config_.split.train, config_.split.validation, config_.split.test};
    std::uint8_t own = 0;
    for (int s = 0; s < split_count; ++s) {
      if (file.is_divided ? fractions[s] > 0 : static_cast<Split>(s) == file.split) own |= std::uint8_t(1 << s);
    }
    std::uint8_t& earlier = ids_[id];
    const bool repeated = (earlier & own) != 0;
    earlier |= own;
    return repeated;
  }

  RowStatus judge(const SourceRow& row, const RowStream::File& file) {
    if (row.too_wide) return RowStatus::extra_columns;
    if (!row.problem.empty()) return RowStatus::unreadable;
    if (!row.missing_column.empty()) return RowStatus::missing_column;
    if (row.text.empty()) return RowStatus::empty_text;
    if (needs_pair_ && row.text_pair.empty()) return RowStatus::empty_pair;
    if (needs_negative_ && row.negatives.empty()) return RowStatus::empty_negative;
    if (has_labels_ && row.label.empty() && !rules_.may_be_empty) return RowStatus::empty_label;
    const std::int64_t limit = config_.filter.max_characters;
    if (limit > 0 && characters_exceed(limit, row)) return RowStatus::too_many_characters;
    if (has_words_ && has_labels_ && count_words(row.text) != count_words(row.label)) {
      return RowStatus::unequal_words;
    }
    if (queries_) {
      if (const RowStatus status = queries_->judge(query_, row); !is_kept(status)) return status;
    }
    if (config_.names_rows() && !is_usable_id(row.id)) return RowStatus::unusable_id;
    if (is_repeated(row, file)) return RowStatus::repeated_id;
    return labels_.read(row.label);
  }

  /// Remembers what messages and warnings need of a row.
  void note(RowStatus status, const SourceRow& row, const std::string& file) {
    const auto words = [&] { return location_of(row, file) + ": " + describe_reject(status, row, config_); };
    const bool missing = status == RowStatus::missing_column || status == RowStatus::empty_text ||
                         status == RowStatus::empty_pair || status == RowStatus::empty_negative ||
                         status == RowStatus::empty_label;
    if (missing && !config_.filter.drop_missing && missing_.all().size() < most_missing) missing_.add(words() + ".");
    std::string& first = table_.first_rejects[static_cast<std::size_t>(status)];
    if (!is_kept(status) && first.empty()) {
      const bool says_more = describe_reject(status, row, config_) != reason(status);
      first = says_more ? words() : location_of(row, file);
    }
    if (is_broken(status)) {
      for (std::size_t i = 0; i < likely_delimiters.size(); ++i) {
        if (row.record.find(likely_delimiters[i]) != std::string_view::npos) ++table_.rejects_with[i];
      }
    }
    if (!is_kept(status)) return;
    if (!row.note.empty() && table_.noted_rows++ == 0) table_.first_note = location_of(row, file) + ": " + row.note;
    const bool valid = !row.malformed && tokenize::is_valid_utf8(row.text) && tokenize::is_valid_utf8(row.text_pair) &&
                       std::ranges::all_of(row.negatives, tokenize::is_valid_utf8) &&
                       tokenize::is_valid_utf8(row.label);
    if (!valid && table_.malformed_rows++ == 0) table_.first_malformed = location_of(row, file);
  }

  static constexpr std::size_t most_missing = 10;

  const PrepConfig& config_;
  const RowVisit& visit_;
  RowTable table_;
  const LabelRules rules_ = label_rules(config_.kind().labels);
  const bool has_labels_ = config_.has_labels(), has_words_ = config_.has_words();
  const bool needs_pair_ = config_.has_second_text() && !config_.filter.empty_pairs;
  const bool needs_negative_ = config_.has_labels() && !config_.source.negatives.empty();
  LabelReader labels_{config_, table_};
  std::unordered_map<std::uint64_t, std::uint8_t> ids_;  // hash of an id → bits of the splits that may have it
  std::optional<Queries> queries_;                       // of candidates
  std::uint64_t query_ = 0;                              // of the row under way
  std::int64_t rows_to_split_ = 0;
  core::ProblemList missing_;
};

}  // namespace

RowTable scan_rows(const PrepConfig& config, const RowVisit& visit) {
  return Scan(config, visit).run();
}

}  // namespace bert_hpc::prep
