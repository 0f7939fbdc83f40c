#include "bert_hpc/io/predictions.hpp"

#include <unistd.h>

#include <optional>

#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/hdf5/hdf5.hpp"

namespace bert_hpc::io {
namespace {

constexpr const char *schema = "bert_hpc predictions 1", *windows_group = "windows", *source_rows = "source_index";
using AnyAppender = std::variant<Appender<std::int32_t>, Appender<float>>;

constexpr Storage column_storage{.chunk_rows = 1 << 14, .gzip = 1, .shuffle = true, .fletcher32 = true};

/// Chunks of about 256 KiB for any number of columns.
Storage matrix_storage(std::int64_t columns) {
  Storage storage = column_storage;
  storage.chunk_rows = std::max<std::int64_t>(1, (1 << 16) / columns);
  return storage;
}

AnyAppender make_appender(Hdf5File& file, const std::string& name, const PredictionColumn& column) {
  const Storage storage = column.width > 0 ? matrix_storage(column.width) : column_storage;
  if (std::holds_alternative<std::vector<std::int32_t>>(column.values)) {
    return Appender<std::int32_t>(file, name, storage, column.width);
  }
  core::require(std::holds_alternative<std::vector<float>>(column.values), "predictions.h5 holds numbers");
  return Appender<float>(file, name, storage, column.width);
}

}  // namespace

/// Columns of one length. `group`: "" or a name with a slash behind it.
class PredictionTable {
 public:
  PredictionTable(Hdf5File& file, const std::string& group, std::span<const PredictionColumn> columns)
      : source_index_(file, group + source_rows, column_storage) {
    for (const PredictionColumn& column : columns) columns_.push_back(make_appender(file, group + column.name, column));
  }

  void append(std::span<const std::int64_t> source_index, std::span<const PredictionColumn> columns) {
    core::require(columns.size() == columns_.size(), "rows of predictions have the columns of the file");
    source_index_.append(source_index);
    for (std::size_t c = 0; c < columns.size(); ++c) {
      const std::size_t elements =
          source_index.size() * static_cast<std::size_t>(std::max<std::int64_t>(1, columns[c].width));
      std::visit(
          [&]<class T>(Appender<T>& appender) {
            const auto* values = std::get_if<std::vector<T>>(&columns[c].values);
            core::require(values != nullptr && values->size() == elements, "a column of predictions has all rows");
            appender.append(std::span<const T>(*values));
          },
          columns_[c]);
    }
  }

  std::int64_t rows() const { return source_index_.rows(); }

  void finish() {
    source_index_.finish();
    for (AnyAppender& column : columns_) std::visit([](auto& appender) { appender.finish(); }, column);
  }

 private:
  Appender<std::int64_t> source_index_;
  std::vector<AnyAppender> columns_;
};

struct PredictionsWriter::State {
  std::string path;
  Hdf5File file;
  PredictionTable rows;
  std::optional<PredictionTable> windows{};
  bool closed = false;
};

PredictionsWriter::PredictionsWriter(const std::string& path, const PredictionsInfo& info,
                                     std::span<const PredictionColumn> columns) {
  Hdf5File file = Hdf5File::create(name_beside(path), core::ExitCode::files);
  file.write_attribute("/", "schema", schema);
  file.write_attribute("/", "task", info.task);
  file.write_attribute("/", "label_names", info.label_names);
  for (const auto& [name, value] : info.attributes) file.write_attribute("/", name, value);
  PredictionTable rows(file, "", columns);
  state_ = std::unique_ptr<State>(new State{path, std::move(file), std::move(rows)});
}

PredictionsWriter::~PredictionsWriter() {
  if (!state_ || state_->closed) return;
  const std::string beside = name_beside(state_->path);
  state_.reset();
  ::unlink(beside.c_str());
}

void PredictionsWriter::append(std::span<const std::int64_t> source_index, std::span<const PredictionColumn> columns) {
  state_->rows.append(source_index, columns);
}

void PredictionsWriter::add_windows(std::span<const PredictionColumn> columns) {
  state_->file.create_group(windows_group);
  state_->windows.emplace(state_->file, std::string(windows_group) + '/', columns);
}

void PredictionsWriter::append_windows(std::span<const std::int64_t> source_index,
                                       std::span<const PredictionColumn> columns) {
  state_->windows.value().append(source_index, columns);
}

void PredictionsWriter::close() {
  State& state = *state_;
  if (state.closed) return;
  state.file.write_attribute("/", "rows", state.rows.rows());
  state.rows.finish();
  if (state.windows) state.windows->finish();
  state.file.close();
  publish(state.path);
  state.closed = true;
}

struct PredictionsReader::State {
  Hdf5File file;
  PredictionsInfo info{};
  std::int64_t rows = 0;

  Dataset column(const std::string& name) const {
    Dataset dataset = file.dataset(name);
    const std::vector<std::int64_t>& extents = dataset.info().extents;
    if (extents.empty() || extents.size() > 2 || extents.front() != rows) {
      throw core::Error(file.code(), file.path() + ": /" + name + " has the extents " + dataset.info().shape_text() +
                                         " instead of a row for each prediction.");
    }
    dataset.require_stored();
    return dataset;
  }
};

PredictionsReader::PredictionsReader(const std::string& path)
    : state_(new State{Hdf5File::open_read(path, core::ExitCode::data)}) {
  State& s = *state_;
  if (!s.file.has_attribute("/", "schema") || s.file.text_attribute("/", "schema") != schema) {
    throw core::Error(core::ExitCode::data, path + ": it is no file of predictions, as mode \"predict\" writes it.");
  }
  s.info.task = s.file.text_attribute("/", "task");
  s.info.label_names = s.file.text_attributes("/", "label_names");
  s.rows = s.file.integer_attribute("/", "rows");
}

PredictionsReader::~PredictionsReader() = default;

const std::string& PredictionsReader::path() const {
  return state_->file.path();
}
const PredictionsInfo& PredictionsReader::info() const {
  return state_->info;
}
std::string PredictionsReader::attribute(const std::string& name) const {
  return state_->file.has_attribute("/", name) ? state_->file.text_attribute("/", name) : std::string();
}
std::int64_t PredictionsReader::rows() const {
  return state_->rows;
}
bool PredictionsReader::has_windows() const {
  return has(windows_group);
}
bool PredictionsReader::has(const std::string& column) const {
  return state_->file.exists(column);
}

std::int64_t PredictionsReader::columns(const std::string& column) const {
  const std::vector<std::int64_t> extents = state_->column(column).info().extents;
  return extents.size() == 2 ? extents.back() : 1;
}

std::vector<std::int64_t> PredictionsReader::source_index() const {
  const Dataset dataset = state_->column(source_rows);
  dataset.expect<std::int64_t>(1);
  std::vector<std::int64_t> rows(static_cast<std::size_t>(state_->rows));
  dataset.read_rows(0, rows);
  return rows;
}

std::vector<float> PredictionsReader::read(const std::string& column) const {
  const Dataset dataset = state_->column(column);
  dataset.expect<float>(static_cast<int>(dataset.info().extents.size()));
  std::vector<float> values(static_cast<std::size_t>(dataset.info().elements()));
  dataset.read_rows(0, values);
  return values;
}

}  // namespace bert_hpc::io
