#include "bert_hpc/data/row_texts.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {
namespace {

constexpr std::int64_t longest_text = std::int64_t{64} << 20;  // bytes of a text, as readers of text take it

}  // namespace

RowTextsWriter::RowTextsWriter(io::Hdf5File& file, const io::Storage& texts, const io::Storage& offsets)
    : texts_(file, shard_dataset::texts, texts), offsets_(file, shard_dataset::text_offsets, offsets) {
  offsets_.append(std::int64_t{0});
}

void RowTextsWriter::append(std::span<const std::string> texts) {
  for (const std::string& text : texts) {
    texts_.append(std::span<const std::uint8_t>(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()));
    bytes_ += std::ssize(text);
    offsets_.append(bytes_);
  }
}

void RowTextsWriter::finish() {
  texts_.finish();
  offsets_.finish();
}

RowTextsReader::RowTextsReader(const ShardReader& reader, std::mutex& hdf5)
    : reader_(reader),
      hdf5_(hdf5),
      texts_(static_cast<std::size_t>(reader.info().task->row_texts)),
      offsets_(texts_.size() + 1) {
  core::require(std::ssize(reader.source_index()) == reader.samples(), "rows of the source are known");
}

RowTextsReader::~RowTextsReader() {
  const std::lock_guard lock(hdf5_);
  text_data_.reset();
  offset_data_.reset();
  file_.reset();
}

void RowTextsReader::fail(const std::string& what) const {
  throw core::Error(core::ExitCode::data, path_ + ": " + what);
}

void RowTextsReader::open(const std::string& file) {
  text_data_.reset();
  offset_data_.reset();
  path_ = file;
  file_ = io::Hdf5File::open_read(file, core::ExitCode::data);
  text_data_ = file_->dataset(shard_dataset::texts);
  offset_data_ = file_->dataset(shard_dataset::text_offsets);
  row_ = 0;
  row_count_ = (offset_data_->info().extents.at(0) - 1) / std::ssize(texts_);
}

bool RowTextsReader::next() {
  if (sample_ + 1 == reader_.samples()) return false;
  ++sample_;
  const SampleLocation location = reader_.location(sample_);
  const std::lock_guard lock(hdf5_);
  if (location.file != path_) open(location.file);
  const auto at = static_cast<std::size_t>(sample_);
  const std::span<const std::int64_t> rows = reader_.source_index();
  starts_row_ = location.sequence == 0 || rows[at] != rows[at - 1];
  if (starts_row_) read_row();
  return true;
}

void RowTextsReader::read_row() {
  if (row_ == row_count_) fail("'/texts' hold fewer rows than there are in '/source_index'.");
  offset_data_->read_rows(row_ * std::ssize(texts_), offsets_);
  const std::int64_t bytes = text_data_->info().extents.at(0);
  for (std::size_t i = 0; i < texts_.size(); ++i) {
    const std::int64_t begin = offsets_[i], end = offsets_[i + 1];
    if (begin < 0 || begin > end || end > bytes || end - begin > longest_text) {
      fail("'/text_offsets' are damaged at row " + std::to_string(row_) + ".");
    }
    bytes_.resize(static_cast<std::size_t>(end - begin));
    if (!bytes_.empty()) text_data_->read_rows(begin, bytes_);
    texts_[i].assign(bytes_.begin(), bytes_.end());
  }
  ++row_;
}

}  // namespace bert_hpc::data
