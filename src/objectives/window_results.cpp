// Rank 0 turns a block of windows at a time into rows, which go to the metrics and to the files.
#include "bert_hpc/objectives/window_results.hpp"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tasks/window_pooling.hpp"

namespace bert_hpc::objectives {
namespace {

struct WindowSettings {
  const data::SourceRows& rows;
  std::int64_t outputs = 0;  ///< of a sequence, which are kept as the model makes them
  tasks::WindowPooling pooling = tasks::WindowPooling::mean;
  const OutputRules& rules;  ///< applied to pooled outputs
  /// Gets the results of all rows, but no loss, on rank 0. Null: there are no labels.
  metrics::Evaluation* evaluation = nullptr;
};

tasks::WindowPooling pooling_of(const config::Task& task) {
  return tasks::window_pooling(task.word(tasks::windows_key));
}

constexpr std::int64_t block_values = 1 << 16;  // of outputs of rows that are added and written at a time

template <class T>
std::span<const T> part(std::span<const T> all, std::int64_t begin, std::int64_t rows, std::int64_t width = 1) {
  if (all.empty()) return all;
  return all.subspan(static_cast<std::size_t>(begin * width), static_cast<std::size_t>(rows * width));
}

/// The largest probability of softmax(logits).
float confidence_of(std::span<const float> logits) {
  const float largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - static_cast<double>(largest));
  return static_cast<float>(1 / sum);
}

class WindowCollector : public ResultCollector {
 public:
  WindowCollector(const PredictionsFacts* files, const data::ShardReader& reader, const WindowSettings& settings,
                  std::mutex& hdf5)
      : facts_(files), reader_(reader), settings_(settings), pool_(settings.pooling, settings.outputs) {
    if (files == nullptr) return;
    tables_.emplace(*files, reader, row_columns(0), hdf5);
    tables_->add_windows(window_columns(0));
  }

  void add(std::span<const float> kept) override {
    pool_.add(kept);
    if (facts_ != nullptr) windows_.insert(windows_.end(), kept.begin(), kept.end());
    if (++window_ < settings_.rows.begin(row_ + 1)) return;
    counts_.push_back(static_cast<std::int32_t>(pool_.windows()));
    pooled_.resize(pooled_.size() + static_cast<std::size_t>(settings_.outputs));
    pool_.finish(std::span(pooled_).last(static_cast<std::size_t>(settings_.outputs)));
    ++row_;
    if (std::max(pooled_.size(), windows_.size()) >= static_cast<std::size_t>(block_values)) take_block();
  }

  void finish(metrics::Evaluation*) override {
    core::require(row_ == settings_.rows.count(), "all windows of all rows have outputs");
    take_block();
    if (tables_) tables_->close();
  }

 private:
  std::int64_t rows() const { return std::ssize(counts_); }

  void take_block() {
    if (counts_.empty()) return;
    const std::int64_t begin = row_ - rows();
    const std::span<const float> outputs =
        outputs_in_labels_unit(settings_.rules.scales, settings_.rules.range, pooled_, in_labels_unit_);
    if (settings_.evaluation != nullptr) add_metrics(begin, outputs);
    if (tables_) write(begin, outputs);
    counts_.clear();
    pooled_.clear();
    windows_.clear();
  }

  /// outputs (rows, outputs): of rows from `begin` on.
  void add_metrics(std::int64_t begin, std::span<const float> outputs) {
    const auto count = static_cast<std::size_t>(rows()), width = static_cast<std::size_t>(settings_.outputs);
    numbers_.resize(count);
    sequence_.resize(count);
    predicted_.resize(count);
    confidences_.resize(count);
    for (std::size_t r = 0; r < count; ++r) {
      const std::span<const float> own = outputs.subspan(r * width, width);
      numbers_[r] = begin + static_cast<std::int64_t>(r);
      sequence_[r] = static_cast<std::int32_t>(r);
      predicted_[r] = static_cast<std::int32_t>(std::max_element(own.begin(), own.end()) - own.begin());
      confidences_[r] = confidence_of(own);
    }
    core::MicroBatch batch;
    batch.sequences = rows();
    batch.sample = numbers_.data();
    batch.targets.rows.count = rows();
    batch.targets.rows.sequence = sequence_.data();
    const std::span<const std::int32_t> classes = part(settings_.rows.classes(), begin, rows());
    batch.targets.get<core::ClassTargets>().data = classes.data();
    settings_.evaluation->add(
        0, {.batch = batch, .predicted = predicted_, .outputs = outputs, .confidences = confidences_});
  }

  void write(std::int64_t begin, std::span<const float> outputs) {
    source_.clear();
    for (std::int64_t row = begin; row < row_; ++row) {
      source_.push_back(reader_.source_index()[static_cast<std::size_t>(settings_.rows.begin(row))]);
    }
    tables_->append_rows(source_, row_columns(begin, outputs));
    const std::int64_t first = settings_.rows.begin(begin);
    tables_->append_windows(part(reader_.source_index(), first, window_ - first),
                            window_columns(first, outputs_in_labels_unit(settings_.rules.scales, settings_.rules.range,
                                                                         windows_, in_labels_unit_)));
  }

  metrics::EvaluatedSet labels() const {
    return {.outputs = settings_.outputs, .least_output = facts_->least_output, .value_levels = facts_->value_levels};
  }

  /// Rows from `begin` on, as many as `outputs` are of.
  PredictedRows row_columns(std::int64_t begin, std::span<const float> outputs = {}) const {
    const std::int64_t count = std::ssize(outputs) / settings_.outputs;
    metrics::EvaluatedSet known = labels();
    known.values = part(settings_.rows.values(), begin, count, reader_.value_columns());
    known.classes = part(settings_.rows.classes(), begin, count);
    known.sets = part(settings_.rows.sets(), begin, count, settings_.outputs);
    PredictedRows predicted =
        facts_->predict({.rows = count, .outputs = outputs, .labels = known, .label_names = facts_->label_names});
    predicted.stored.push_back({"window_count", counts_});
    predicted.shown.push_back({"window_count", counts_});
    return predicted;
  }

  /// The same of windows.
  PredictedRows window_columns(std::int64_t begin, std::span<const float> outputs = {}) const {
    const std::int64_t count = std::ssize(outputs) / settings_.outputs;
    metrics::EvaluatedSet known = labels();
    known.values = part(reader_.values(), begin, count, reader_.value_columns());
    known.classes = part(reader_.classes(), begin, count);
    known.sets = part(reader_.sets(), begin, count, settings_.outputs);
    return facts_->predict({.rows = count, .outputs = outputs, .labels = known, .label_names = facts_->label_names});
  }

  const PredictionsFacts* facts_;
  const data::ShardReader& reader_;
  WindowSettings settings_;
  tasks::WindowPool pool_;
  std::int64_t row_ = 0, window_ = 0;  // the next ones
  // The block under way:
  std::vector<std::int32_t> counts_;                 // (rows): windows
  std::vector<float> pooled_, windows_;              // (rows, outputs), (windows, outputs)
  std::vector<float> in_labels_unit_, confidences_;  // a regression's outputs; (rows)
  std::vector<std::int64_t> numbers_, source_;       // (rows)
  std::vector<std::int32_t> sequence_, predicted_;   // (rows)
  std::optional<PredictionTables> tables_;
};

class WindowResults : public SampleResults {
 public:
  WindowResults(const data::ShardReader& reader, const WindowSettings& settings, std::mutex& hdf5)
      : reader_(reader), settings_(settings), hdf5_(hdf5) {}

  std::int64_t width(std::int64_t) const override { return settings_.outputs; }
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    std::copy(outputs.begin(), outputs.end(), kept.begin());
  }
  std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const override {
    return std::make_unique<WindowCollector>(files, reader_, settings_, hdf5_);
  }
  bool makes_metrics() const override { return true; }

 private:
  const data::ShardReader& reader_;
  WindowSettings settings_;
  std::mutex& hdf5_;
};

}  // namespace

std::string windows_text(const config::Task& task, const data::SourceRows& rows, std::int64_t windows) {
  if (!rows.has_windows()) return {};
  const tasks::WindowPooling pooling = pooling_of(task);
  const std::string outputs = pooling == tasks::WindowPooling::mean  ? "the mean of its windows' outputs"
                              : pooling == tasks::WindowPooling::max ? "the largest of its windows' outputs"
                                                                     : "the outputs of its first window";
  return core::counted(rows.count(), "row") + " in " + core::counted(windows, "window") +
         "; predictions and metrics are of rows: of each " + outputs + " (task.windows); loss is of windows";
}

std::unique_ptr<SampleResults> row_or_window_results(const ResultsRequest& data) {
  if (!data.rows.has_windows()) return row_results(data.reader, data.outputs, data.hdf5);
  const WindowSettings settings{.rows = data.rows,
                                .outputs = data.outputs,
                                .pooling = pooling_of(data.task),
                                .rules = data.rules,
                                .evaluation = data.evaluation};
  return std::make_unique<WindowResults>(data.reader, settings, data.hdf5);
}

}  // namespace bert_hpc::objectives
