#include "bert_hpc/objectives/sample_results.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::objectives {
namespace {

constexpr std::int64_t block_values = 1 << 16;  // of outputs that become columns at a time

/// Rows of a column of labels; none if the column is empty.
template <class T>
std::span<const T> part(std::span<const T> column, std::int64_t begin, std::int64_t rows, std::int64_t width = 1) {
  if (column.empty()) return column;
  return column.subspan(static_cast<std::size_t>(begin * width), static_cast<std::size_t>(rows * width));
}

/// Writes a block of rows as soon as it has one.
class RowCollector : public ResultCollector {
 public:
  RowCollector(const PredictionsFacts& facts, const data::ShardReader& reader, std::int64_t outputs, std::mutex& hdf5)
      : facts_(facts), reader_(reader), outputs_(outputs), tables_(facts, reader, predict(0, 0), hdf5) {
    block_.reserve(static_cast<std::size_t>(block_rows() * outputs));
  }

  void add(std::span<const float> kept) override {
    block_.insert(block_.end(), kept.begin(), kept.end());
    if (rows() == block_rows()) write();
  }

  void finish(metrics::Evaluation*) override {
    if (!block_.empty()) write();
    tables_.close();
  }

 private:
  std::int64_t block_rows() const { return std::max<std::int64_t>(1, block_values / outputs_); }
  std::int64_t rows() const { return std::ssize(block_) / outputs_; }

  /// Predictions of samples [begin, begin + rows), whose outputs are the block.
  PredictedRows predict(std::int64_t begin, std::int64_t rows) const {
    return facts_.predict({.rows = rows,
                           .outputs = block_,
                           .labels = {.outputs = outputs_,
                                      .values = part(reader_.values(), begin, rows, reader_.value_columns()),
                                      .classes = part(reader_.classes(), begin, rows),
                                      .sets = part(reader_.sets(), begin, rows, outputs_),
                                      .least_output = facts_.least_output,
                                      .value_levels = facts_.value_levels},
                           .label_names = facts_.label_names});
  }

  void write() {
    tables_.append(rows(), predict(tables_.samples(), rows()));
    block_.clear();
  }

  const PredictionsFacts& facts_;
  const data::ShardReader& reader_;
  std::int64_t outputs_;
  std::vector<float> block_;  // (rows, outputs)
  PredictionTables tables_;
};

class RowResults : public SampleResults {
 public:
  RowResults(const data::ShardReader& reader, std::int64_t outputs, std::mutex& hdf5)
      : reader_(reader), outputs_(outputs), hdf5_(hdf5) {}

  std::int64_t width(std::int64_t) const override { return outputs_; }
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    std::copy(outputs.begin(), outputs.end(), kept.begin());
  }
  bool is_for_files_alone() const override { return true; }
  std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const override {
    core::require(files != nullptr, "rows are collected for files alone");
    return std::make_unique<RowCollector>(*files, reader_, outputs_, hdf5_);
  }

 private:
  const data::ShardReader& reader_;
  std::int64_t outputs_;
  std::mutex& hdf5_;
};

class CollectedOutputs : public SampleResults {
 public:
  CollectedOutputs(std::int64_t outputs, std::function<std::unique_ptr<ResultCollector>()> collector)
      : outputs_(outputs), collector_(std::move(collector)) {}

  std::int64_t width(std::int64_t) const override { return outputs_; }
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    std::copy(outputs.begin(), outputs.end(), kept.begin());
  }
  std::unique_ptr<ResultCollector> collect(const PredictionsFacts*) const override { return collector_(); }
  bool makes_loss() const override { return true; }
  bool makes_metrics() const override { return true; }

 private:
  std::int64_t outputs_;
  std::function<std::unique_ptr<ResultCollector>()> collector_;
};

}  // namespace

std::unique_ptr<SampleResults> collected_outputs(std::int64_t outputs,
                                                 std::function<std::unique_ptr<ResultCollector>()> collector) {
  return std::make_unique<CollectedOutputs>(outputs, std::move(collector));
}

std::unique_ptr<SampleResults> row_results(const data::ShardReader& reader, std::int64_t outputs, std::mutex& hdf5) {
  return std::make_unique<RowResults>(reader, outputs, hdf5);
}

void require_texts(const data::ShardReader& reader) {
  if (reader.planned() || reader.info().has_texts) return;
  throw core::Error(core::ExitCode::data,
                    reader.files().front() +
                        ": it holds no texts, which predictions need: it was prepared for training. Prepare these "
                        "files as [source] validation_files or test_files.");
}

}  // namespace bert_hpc::objectives
