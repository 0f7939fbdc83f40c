#include "bert_hpc/io/predictions.hpp"

#include <unistd.h>

#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::io {
namespace {

using AnyAppender = std::variant<Appender<std::int32_t>, Appender<float>>;

constexpr Storage column_storage{.chunk_rows = 1 << 14, .gzip = 1, .shuffle = true, .fletcher32 = true};

/// Chunks of about 256 KiB for any number of columns.
Storage matrix_storage(std::int64_t columns) {
  Storage storage = column_storage;
  storage.chunk_rows = std::max<std::int64_t>(1, (1 << 16) / columns);
  return storage;
}

AnyAppender make_appender(Hdf5File& file, const PredictionColumn& column) {
  const Storage storage = column.width > 0 ? matrix_storage(column.width) : column_storage;
  if (std::holds_alternative<std::vector<std::int32_t>>(column.values)) {
    return Appender<std::int32_t>(file, column.name, storage, column.width);
  }
  core::require(std::holds_alternative<std::vector<float>>(column.values), "predictions.h5 holds numbers");
  return Appender<float>(file, column.name, storage, column.width);
}

}  // namespace

struct PredictionsWriter::State {
  std::string path;
  Hdf5File file;
  Appender<std::int64_t> source_index;
  std::vector<AnyAppender> columns{};
  bool closed = false;
};

PredictionsWriter::PredictionsWriter(const std::string& path, const PredictionsInfo& info,
                                     std::span<const PredictionColumn> columns) {
  Hdf5File file = Hdf5File::create(name_beside(path), core::ExitCode::files);
  file.write_attribute("/", "schema", "bert_hpc predictions 1");
  file.write_attribute("/", "task", info.task);
  file.write_attribute("/", "label_names", info.label_names);
  for (const auto& [name, value] : info.attributes) file.write_attribute("/", name, value);
  Appender<std::int64_t> source_index(file, "source_index", column_storage);
  state_ = std::unique_ptr<State>(new State{path, std::move(file), std::move(source_index)});
  for (const PredictionColumn& column : columns) state_->columns.push_back(make_appender(state_->file, column));
}

PredictionsWriter::~PredictionsWriter() {
  if (!state_ || state_->closed) return;
  const std::string beside = name_beside(state_->path);
  state_.reset();
  ::unlink(beside.c_str());
}

void PredictionsWriter::append(std::span<const std::int64_t> source_index, std::span<const PredictionColumn> columns) {
  State& state = *state_;
  core::require(columns.size() == state.columns.size(), "rows of predictions have the columns of the file");
  state.source_index.append(source_index);
  for (std::size_t c = 0; c < columns.size(); ++c) {
    const std::size_t elements =
        source_index.size() * static_cast<std::size_t>(std::max<std::int64_t>(1, columns[c].width));
    std::visit(
        [&]<class T>(Appender<T>& appender) {
          const auto* values = std::get_if<std::vector<T>>(&columns[c].values);
          core::require(values != nullptr && values->size() == elements, "a column of predictions has all rows");
          appender.append(std::span<const T>(*values));
        },
        state.columns[c]);
  }
}

void PredictionsWriter::close() {
  State& state = *state_;
  if (state.closed) return;
  state.file.write_attribute("/", "rows", state.source_index.rows());
  state.source_index.finish();
  for (AnyAppender& column : state.columns) std::visit([](auto& appender) { appender.finish(); }, column);
  state.file.close();
  publish(state.path);
  state.closed = true;
}

}  // namespace bert_hpc::io
