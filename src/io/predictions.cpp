#include "bert_hpc/io/predictions.hpp"

#include <unistd.h>

#include <limits>
#include <optional>

#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/hdf5.hpp"

namespace bert_hpc::io {

struct PredictionsWriter::State {
  std::string path;
  std::int64_t classes;
  Hdf5File file;
  Appender<std::int64_t> source_index;
  // One of these pairs is used, depending on the task.
  std::optional<Appender<std::int32_t>> class_label, class_prediction;
  std::optional<Appender<float>> value_label, value_prediction, probabilities;
  bool closed = false;
};

namespace {

constexpr Storage column_storage{.chunk_rows = 1 << 14, .gzip = 1, .shuffle = true, .fletcher32 = true};

/// Chunks of about 256 KiB for any number of classes.
Storage matrix_storage(std::int64_t columns) {
  Storage storage = column_storage;
  storage.chunk_rows = std::max<std::int64_t>(1, (1 << 16) / columns);
  return storage;
}

}  // namespace

PredictionsWriter::PredictionsWriter(const std::string& path, const PredictionsInfo& info) {
  Hdf5File file = Hdf5File::create(name_beside(path), core::ExitCode::files);
  file.write_attribute("/", "schema", "bert_hpc predictions 1");
  file.write_attribute("/", "task", info.task);
  file.write_attribute("/", "label_names", info.label_names);
  for (const auto& [name, value] : info.attributes) file.write_attribute("/", name, value);
  Appender<std::int64_t> source_index(file, "source_index", column_storage);
  state_ = std::unique_ptr<State>(
      new State{path, info.classes, std::move(file), std::move(source_index), {}, {}, {}, {}, {}, false});
  State& state = *state_;
  if (info.classes > 0) {
    state.class_label.emplace(state.file, "label", column_storage);
    state.class_prediction.emplace(state.file, "prediction", column_storage);
    state.probabilities.emplace(state.file, "probabilities", matrix_storage(info.classes), info.classes);
  } else {
    state.value_label.emplace(state.file, "label", column_storage);
    state.value_prediction.emplace(state.file, "prediction", column_storage);
  }
}

PredictionsWriter::~PredictionsWriter() {
  if (!state_ || state_->closed) return;
  const std::string beside = name_beside(state_->path);
  state_.reset();
  ::unlink(beside.c_str());
}

void PredictionsWriter::append(std::span<const std::int64_t> source_index, std::span<const std::int32_t> label,
                               std::span<const std::int32_t> prediction, std::span<const float> probabilities) {
  State& state = *state_;
  const std::size_t rows = source_index.size();
  core::require(state.classes > 0 && prediction.size() == rows && (label.empty() || label.size() == rows) &&
                    probabilities.size() == rows * static_cast<std::size_t>(state.classes),
                "predictions of classes with arrays of different lengths");
  state.source_index.append(source_index);
  state.class_label->append(label.empty() ? std::vector<std::int32_t>(rows, -1)
                                          : std::vector<std::int32_t>(label.begin(), label.end()));
  state.class_prediction->append(prediction);
  state.probabilities->append(probabilities);
}

void PredictionsWriter::append(std::span<const std::int64_t> source_index, std::span<const float> label,
                               std::span<const float> prediction) {
  State& state = *state_;
  const std::size_t rows = source_index.size();
  core::require(state.classes == 0 && prediction.size() == rows && (label.empty() || label.size() == rows),
                "predictions of values with arrays of different lengths");
  constexpr float unknown = std::numeric_limits<float>::quiet_NaN();
  state.source_index.append(source_index);
  state.value_label->append(label.empty() ? std::vector<float>(rows, unknown)
                                          : std::vector<float>(label.begin(), label.end()));
  state.value_prediction->append(prediction);
}

void PredictionsWriter::close() {
  State& state = *state_;
  if (state.closed) return;
  state.file.write_attribute("/", "rows", state.source_index.rows());
  state.source_index.finish();
  if (state.class_label) state.class_label->finish();
  if (state.class_prediction) state.class_prediction->finish();
  if (state.value_label) state.value_label->finish();
  if (state.value_prediction) state.value_prediction->finish();
  if (state.probabilities) state.probabilities->finish();
  state.file.close();
  publish(state.path);
  state.closed = true;
}

}  // namespace bert_hpc::io
