#include "app/engine/embedding_file.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/embedding_names.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"

namespace bert_hpc::app {
namespace {

using core::ExitCode;

constexpr const char* schema = "bert_hpc-embeddings-1";
constexpr const char* file_kind = "embeddings";
constexpr const char *embeddings_dataset = "/embeddings", *scales_dataset = "/scales", *offsets_dataset = "/offsets",
                     *labels_dataset = "/labels", *source_dataset = "/source_index";

io::Storage storage_of(const EmbeddingFormat& format) {
  constexpr std::int64_t chunk_bytes = std::int64_t{1} << 17;
  const std::int64_t rows = std::max<std::int64_t>(1, chunk_bytes / (format.dimensions * format.element_bytes()));
  return {.chunk_rows = rows, .gzip = format.gzip ? 1 : 0, .shuffle = format.gzip, .fletcher32 = true};
}

/// A dataset of a label for each sequence, in the part of a shard's sequences that a file has.
template <class T>
void copy_rows(const io::Dataset& from, std::int64_t first, std::int64_t count, std::vector<std::uint8_t>& to) {
  std::vector<T> rows(static_cast<std::size_t>(count * (from.info().elements() / from.info().extents.front())));
  from.read_rows(first, rows);
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(rows.data());
  to.insert(to.end(), bytes, bytes + rows.size() * sizeof(T));
}

template <class T>
void write_rows(io::Hdf5File& file, const std::vector<std::uint8_t>& bytes, const std::vector<std::int64_t>& extents) {
  file.write(labels_dataset, std::span(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T)), extents);
}

}  // namespace

void normalize_row(std::span<float> row) {
  double squares = 0;
  for (const float x : row) squares += static_cast<double>(x) * static_cast<double>(x);
  constexpr double least = 1e-12;
  const auto length = static_cast<float>(std::max(std::sqrt(squares), least));
  for (float& x : row) x /= length;
}

float round_to_int8(std::span<const float> row, std::span<std::int8_t> rounded) {
  constexpr float most = 127;
  float largest = 0;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  const float scale = largest / most;
  for (std::size_t j = 0; j < row.size(); ++j) {
    rounded[j] = static_cast<std::int8_t>(scale > 0 ? std::lrint(std::clamp(row[j] / scale, -most, most)) : 0);
  }
  return scale;
}

EmbeddingFile::EmbeddingFile(std::string path, const EmbeddingFormat& format, const EmbeddingIdentity& identity,
                             const data::ShardReader& reader, std::int64_t first, std::mutex& hdf5)
    : path_(std::move(path)), format_(format), reader_(reader), first_(first), hdf5_(hdf5) {
  const std::lock_guard lock(hdf5_);
  file_ = io::Hdf5File::create(io::name_beside(path_), ExitCode::files, io::seal_bytes);
  const io::Storage storage = storage_of(format);
  const std::int64_t columns = format.dimensions;
  if (format.type == "fp32") {
    floats_ = std::make_unique<io::Appender<float>>(*file_, embeddings_dataset, storage, columns);
  } else if (format.type == "int8") {
    bytes_ = std::make_unique<io::Appender<std::int8_t>>(*file_, embeddings_dataset, storage, columns);
    scales_ = std::make_unique<io::Appender<float>>(*file_, scales_dataset, io::Storage{.chunk_rows = 1 << 14});
  } else {
    halves_ = std::make_unique<io::Appender<std::uint16_t>>(*file_, embeddings_dataset, storage, columns);
  }
  file_->write_attribute("/", "schema", schema);
  for (const auto& [name, value] : identity) file_->write_attribute("/", name, value);
  file_->write_attribute("/", "first_sequence", first);
  file_->write_attribute(embeddings_dataset, "type", format.type);
}

EmbeddingFile::~EmbeddingFile() {
  const std::lock_guard lock(hdf5_);
  floats_.reset();
  halves_.reset();
  bytes_.reset();
  scales_.reset();
  file_.reset();
}

void EmbeddingFile::append_row(std::span<const float> row) {
  ++rows_;
  row_.assign(row.begin(), row.begin() + format_.dimensions);
  if (format_.normalize) normalize_row(row_);
  if (floats_) return floats_->append(row_);
  if (bytes_) {
    byte_.resize(row_.size());
    scales_->append(round_to_int8(row_, byte_));
    return bytes_->append(byte_);
  }
  half_.resize(row_.size());
  const bool is_bf16 = format_.type == "bf16";
  for (std::size_t j = 0; j < row_.size(); ++j)
    half_[j] = is_bf16 ? core::Bf16(row_[j]).bits : core::Fp16(row_[j]).bits;
  halves_->append(half_);
}

void EmbeddingFile::add(std::span<const float> rows, std::int64_t columns) {
  const std::lock_guard lock(hdf5_);
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t begin = 0; begin < rows.size(); begin += width) append_row(rows.subspan(begin, width));
  ++sequences_;
  offsets_.push_back(rows_);
}

/// Copies labels of sequences; the file cannot hold labels of words.
void EmbeddingFile::copy_labels() {
  std::vector<std::uint8_t> labels;
  std::vector<std::int64_t> extents;
  std::string type;
  for (std::int64_t done = 0; done < sequences_;) {
    const data::SampleLocation location = reader_.location(first_ + done);
    const io::Hdf5File shard = io::Hdf5File::open_read(location.file, ExitCode::data);
    const std::int64_t there = shard.integer_attribute("/", data::shard_attribute::sequences);
    if (!shard.exists(labels_dataset)) return;
    const io::Dataset dataset = shard.dataset(labels_dataset);
    if (dataset.info().extents.empty() || dataset.info().extents.front() != there ||
        shard.exists(data::shard_dataset::word_offsets)) {
      return;
    }
    const std::int64_t count = std::min(sequences_ - done, there - location.sequence);
    extents = dataset.info().extents;
    type = dataset.info().type_name();
    if (type == "float32") {
      copy_rows<float>(dataset, location.sequence, count, labels);
    } else if (type == "int32") {
      copy_rows<std::int32_t>(dataset, location.sequence, count, labels);
    } else if (type == "uint8") {
      copy_rows<std::uint8_t>(dataset, location.sequence, count, labels);
    } else {
      return;
    }
    if (done == 0 && shard.has_attribute("/", data::shard_attribute::label_names)) {
      file_->write_attribute("/", data::shard_attribute::label_names,
                             shard.text_attribute("/", data::shard_attribute::label_names));
    }
    done += count;
  }
  if (extents.empty()) return;
  extents.front() = sequences_;
  if (type == "float32") return write_rows<float>(*file_, labels, extents);
  if (type == "int32") return write_rows<std::int32_t>(*file_, labels, extents);
  write_rows<std::uint8_t>(*file_, labels, extents);
}

/// Copies the task of the shards and, if they name the rows of texts, a name for each sequence.
void EmbeddingFile::copy_names() {
  const std::span<const std::int64_t> rows = reader_.source_index();
  data::NameList names;
  for (std::int64_t done = 0; done < sequences_; done = names.count()) {
    const data::SampleLocation location = reader_.location(first_ + done);
    const io::Hdf5File shard = io::Hdf5File::open_read(location.file, ExitCode::data);
    const std::string task = shard.text_attribute("/", data::shard_attribute::task);
    if (done == 0) file_->write_attribute("/", data::shard_attribute::task, task);
    const bool has_names = tasks::named(task).has_text_rows() && shard.exists(data::shard_dataset::texts);
    if (!has_names || rows.empty()) return;
    const std::int64_t there = shard.integer_attribute("/", data::shard_attribute::sequences);
    const std::int64_t end = std::min(location.sequence + sequences_ - done, there);
    data::add_row_names(
        shard, rows.subspan(static_cast<std::size_t>(first_ + done - location.sequence), static_cast<std::size_t>(end)),
        location.sequence, names);
  }
  file_->write(data::names_dataset,
               std::span(reinterpret_cast<const std::uint8_t*>(names.bytes.data()), names.bytes.size()));
  file_->write(data::name_offsets_dataset, names.offsets);
}

void EmbeddingFile::close() {
  {
    const std::lock_guard lock(hdf5_);
    if (floats_) floats_->finish();
    if (halves_) halves_->finish();
    if (bytes_) bytes_->finish();
    if (scales_) scales_->finish();
    floats_.reset();
    halves_.reset();
    bytes_.reset();
    scales_.reset();
    if (format_.of_tokens) file_->write(offsets_dataset, offsets_);
    const std::span<const std::int64_t> sources = reader_.source_index();
    if (!sources.empty()) {
      file_->write(source_dataset,
                   sources.subspan(static_cast<std::size_t>(first_), static_cast<std::size_t>(sequences_)));
    }
    copy_labels();
    copy_names();
    file_->write_attribute("/", "sequences", sequences_);
    file_->close();
    file_.reset();
  }
  io::seal(io::name_beside(path_), file_kind);
  io::publish(path_);
}

bool is_complete(const std::string& path, const EmbeddingIdentity& identity, std::int64_t first, std::mutex& hdf5) {
  if (io::check_seal(path, file_kind).state != io::FileState::good) return false;
  const std::lock_guard lock(hdf5);
  const io::Hdf5File file = io::Hdf5File::open_read(path, ExitCode::files);
  if (!file.has_attribute("/", "first_sequence") || file.integer_attribute("/", "first_sequence") != first)
    return false;
  return std::all_of(identity.begin(), identity.end(), [&](const auto& attribute) {
    return file.has_attribute("/", attribute.first) && file.text_attribute("/", attribute.first) == attribute.second;
  });
}

}  // namespace bert_hpc::app
