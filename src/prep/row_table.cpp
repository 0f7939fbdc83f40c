// The first pass: judges rows, counts and numbers labels, parts the splits. Random order comes from a hash of (seed,
// row), so no state is carried along and no rank count enters.
#include "bert_hpc/prep/row_table.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/utf8.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t most_labels = 100000;  // more is a column of something else
constexpr std::size_t most_unlisted = 1000;  // kept, for what is told of them
constexpr std::uint64_t use_split = 1;

/// A finite number and nothing else, in C's notation.
bool parse_number(std::string_view text, float& value) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return false;
  value = static_cast<float>(number);
  return std::isfinite(value);
}

/// The integer that a label spells, if it spells it as numbers are written: "7" and "-1", not "07" or "+7".
std::optional<std::int64_t> integer_of(const std::string& label) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(label.data(), label.data() + label.size(), number);
  if (error != std::errc{} || end != label.data() + label.size() || std::to_string(number) != label) return {};
  return number;
}

/// Puts labels in the order of their numbers, where all are integers, else of their names.
void sort_labels(std::vector<std::size_t>& labels, const std::vector<std::string>& names) {
  std::vector<std::int64_t> numbers(names.size(), 0);
  const bool integers = std::all_of(labels.begin(), labels.end(), [&](std::size_t label) {
    const auto number = integer_of(names[label]);
    numbers[label] = number.value_or(0);
    return number.has_value();
  });
  std::sort(labels.begin(), labels.end(),
            [&](std::size_t a, std::size_t b) { return integers ? numbers[a] < numbers[b] : names[a] < names[b]; });
}

/// "a.csv, row 17, line 20"
std::string place_of(const SourceRow& row, const std::string& file) {
  return file + ", row " + std::to_string(row.number) + ", line " + std::to_string(row.line);
}

/// The pass over the text: statuses but for rare labels and splits, labels numbered as they come.
class Scan {
 public:
  explicit Scan(const PrepConfig& config) : config_(config) {
    for (const std::string& name : config.task.labels) number(name);
  }

  RowTable run() {
    RowStream stream(config_);
    SourceRow row;
    while (stream.next(row)) {
      value_ = 0;
      class_ = 0;
      const RowStatus status = judge(row);
      const auto& file = stream.files()[row.file];
      table_.status.push_back(is_kept(status) ? static_cast<RowStatus>(file.split) : status);
      if (file.parted) parted_rows_ = row.index + 1;  // parted files come first
      if (config_.has_classes()) table_.classes.push_back(class_);
      if (config_.has_values()) table_.values.push_back(value_);
      note(status, row, file.path);
    }
    missing_.throw_if_any(ExitCode::data,
                          "Rows lack their text or label, and [filter] drop_missing is false (the first ones):");
    if (config_.has_classes()) settle_labels();
    part();
    refuse_nothing();
    return std::move(table_);
  }

 private:
  RowStatus judge(const SourceRow& row) {
    if (row.too_wide) return RowStatus::extra_columns;
    if (!row.problem.empty()) return RowStatus::unreadable;
    if (!row.missing_column.empty()) return RowStatus::missing_column;
    if (row.text.empty() || (config_.has_pairs() && row.text_pair.empty())) return RowStatus::empty_text;
    if (config_.has_labels() && row.label.empty()) return RowStatus::empty_label;
    const std::int64_t limit = config_.filter.max_characters;
    if (limit > 0 && static_cast<std::int64_t>(row.text.size() + row.text_pair.size()) > limit &&
        tokenize::count_characters(row.text) + tokenize::count_characters(row.text_pair) > limit) {
      return RowStatus::too_many_characters;
    }
    if (config_.has_values()) {
      return parse_number(row.label, value_) ? RowStatus::train : RowStatus::no_number;
    }
    if (config_.has_classes()) {
      const std::string label = tokenize::valid_utf8(row.label);
      const auto found = numbers_.find(label);
      if (found == numbers_.end() && !config_.task.labels.empty()) return unlisted(label);
      class_ = found != numbers_.end() ? found->second : number(label);
      ++table_.label_rows[static_cast<std::size_t>(class_)];
    }
    return RowStatus::train;
  }

  std::int32_t number(const std::string& name) {
    if (numbers_.size() == most_labels) {
      throw Error(ExitCode::data,
                  "The label column \"" + config_.source.label +
                      "\" has more than 100,000 different "
                      "labels; for numbers set [task] name = \"regression\", else check [source] label.");
    }
    const auto [place, added] = numbers_.try_emplace(name, static_cast<std::int32_t>(numbers_.size()));
    if (added) {
      table_.label_names.push_back(name);
      table_.label_rows.push_back(0);
    }
    return place->second;
  }

  RowStatus unlisted(const std::string& label) {
    auto& rows = table_.unlisted_labels;
    if (rows.size() < most_unlisted || rows.contains(label)) ++rows[label];
    return RowStatus::unlisted_label;
  }

  /// What is to be told of a row.
  void note(RowStatus status, const SourceRow& row, const std::string& file) {
    const auto words = [&] { return place_of(row, file) + ": " + describe_reject(status, row, config_); };
    const bool missing =
        status == RowStatus::missing_column || status == RowStatus::empty_text || status == RowStatus::empty_label;
    if (missing && !config_.filter.drop_missing && missing_.all().size() < 10) missing_.add(words() + ".");
    std::string& first = table_.first_rejects[static_cast<std::size_t>(status)];
    if (!is_kept(status) && first.empty()) {
      const bool says_more = describe_reject(status, row, config_) != reason(status);
      first = says_more ? words() : place_of(row, file);
    }
    if (!is_kept(status)) return;
    const bool valid = !row.malformed && tokenize::is_valid_utf8(row.text) && tokenize::is_valid_utf8(row.text_pair) &&
                       tokenize::is_valid_utf8(row.label);
    if (!valid && table_.malformed_rows++ == 0) table_.first_malformed = place_of(row, file);
  }

  /// Drops rare labels and renumbers the rest: in the order given, else as sort_labels() does.
  void settle_labels() {
    const auto count = table_.label_names.size();
    for (std::size_t i = 0; i < config_.task.labels.size(); ++i) {
      if (table_.label_rows[i] == 0) table_.absent_labels.push_back(table_.label_names[i]);
    }
    std::vector<std::size_t> by_rows(count);
    std::iota(by_rows.begin(), by_rows.end(), std::size_t{0});
    std::sort(by_rows.begin(), by_rows.end(), [this](std::size_t a, std::size_t b) {
      const auto& rows = table_.label_rows;
      return rows[a] != rows[b] ? rows[a] > rows[b] : table_.label_names[a] < table_.label_names[b];
    });
    std::vector<bool> frequent(count, false);
    const std::int64_t most = config_.filter.most_frequent_labels;
    for (std::size_t place = 0; place < count; ++place) {
      frequent[by_rows[place]] = (most == 0 || static_cast<std::int64_t>(place) < most) &&
                                 table_.label_rows[by_rows[place]] >= config_.filter.min_rows_per_label;
    }
    std::vector<std::size_t> kept;
    for (std::size_t i = 0; i < count; ++i) {
      if (frequent[i] || !config_.task.labels.empty()) kept.push_back(i);
    }
    if (config_.task.labels.empty()) sort_labels(kept, table_.label_names);
    renumber(kept, frequent);
  }

  void renumber(const std::vector<std::size_t>& kept, const std::vector<bool>& frequent) {
    std::vector<std::int32_t> number(table_.label_names.size(), 0);
    std::vector<std::string> names;
    std::vector<std::int64_t> rows;
    for (const std::size_t old : kept) {
      number[old] = static_cast<std::int32_t>(names.size());
      names.push_back(table_.label_names[old]);
      rows.push_back(frequent[old] ? table_.label_rows[old] : 0);
    }
    for (std::size_t i = 0; i < table_.status.size(); ++i) {
      if (!is_kept(table_.status[i])) continue;
      const auto old = static_cast<std::size_t>(table_.classes[i]);
      if (!frequent[old]) table_.status[i] = RowStatus::rare_label;
      table_.classes[i] = number[old];
    }
    table_.label_names = std::move(names);
    table_.label_rows = std::move(rows);
  }

  /// [split] for the rows of `files`.
  void part() {
    const bool stratify = config_.split.stratify && config_.has_classes();
    std::vector<std::vector<std::int64_t>> groups(stratify ? table_.label_names.size() : 1);
    for (std::int64_t i = 0; i < parted_rows_; ++i) {
      if (!is_kept(table_.status[static_cast<std::size_t>(i)])) continue;
      groups[stratify ? static_cast<std::size_t>(table_.classes[static_cast<std::size_t>(i)]) : 0].push_back(i);
    }
    for (std::vector<std::int64_t>& rows : groups) {
      // Packed text goes to its split in runs of neighbouring rows, as sentences of one text belong together.
      const auto run = config_.packs() ? std::clamp<std::int64_t>(std::ssize(rows) / 200, 1, 64) : 1;
      const std::int64_t seed = config_.split.seed;
      std::sort(rows.begin(), rows.end(), [run, seed](std::int64_t a, std::int64_t b) {
        const std::uint64_t key_a = random_key(seed, use_split, a / run);
        const std::uint64_t key_b = random_key(seed, use_split, b / run);
        return key_a != key_b ? key_a < key_b : a < b;
      });
      part_rows(rows, config_.split, table_.status);
    }
  }

  void refuse_nothing() const {
    const auto counts = table_.counts();
    if (counts[0] + counts[1] + counts[2] > 0) return;
    std::string text = "No row is left of the " + core::with_commas(table_.rows()) + " in the source";
    for (int s = 3; s < row_status_count; ++s) {
      if (counts[static_cast<std::size_t>(s)] == 0) continue;
      const std::string& first = table_.first_rejects[static_cast<std::size_t>(s)];
      text +=
          "; " + core::counted(counts[static_cast<std::size_t>(s)], "row") + ": " + reason(static_cast<RowStatus>(s));
      if (!first.empty()) text += " (the first is " + first + ")";
    }
    const auto& unlisted = table_.unlisted_labels;
    if (!unlisted.empty()) text += ". Labels that are not listed: " + labels_text({unlisted.begin(), unlisted.end()});
    throw Error(ExitCode::data, text + ". Check the columns in [source] and the limits in [filter].");
  }

  const PrepConfig& config_;
  RowTable table_;
  std::unordered_map<std::string, std::int32_t> numbers_;
  std::int64_t parted_rows_ = 0;
  float value_ = 0;  // of the row being judged
  std::int32_t class_ = 0;
  core::ProblemList missing_;
};

}  // namespace

std::array<std::int64_t, row_status_count> RowTable::counts() const {
  std::array<std::int64_t, row_status_count> counts{};
  for (const RowStatus s : status) ++counts[static_cast<std::size_t>(s)];
  return counts;
}

std::uint64_t random_key(std::int64_t seed, std::uint64_t use, std::int64_t row) {
  return core::mix64(core::mix64(static_cast<std::uint64_t>(seed) ^ use << 56) + static_cast<std::uint64_t>(row));
}

void part_rows(const std::vector<std::int64_t>& rows, const SplitConfig& split, std::vector<RowStatus>& status) {
  const double sum = split.train + split.validation + split.test;
  const auto count = static_cast<double>(rows.size());
  const auto train_end = static_cast<std::size_t>(std::llround(count * (split.train / sum)));
  const auto validation_end =
      split.test > 0 ? static_cast<std::size_t>(std::llround(count * ((split.train + split.validation) / sum)))
                     : rows.size();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    status[static_cast<std::size_t>(rows[i])] = i < train_end        ? RowStatus::train
                                                : i < validation_end ? RowStatus::validation
                                                                     : RowStatus::test;
  }
}

RowTable scan_rows(const PrepConfig& config) {
  return Scan(config).run();
}

}  // namespace bert_hpc::prep
