#include "app/engine/embedding_rows.hpp"

#include <algorithm>
#include <cstring>

#include "app/engine/embedding_file.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/embedding_shard.hpp"
#include "bert_hpc/io/checksummed_file.hpp"

namespace bert_hpc::app {
namespace {

template <class T>
void widen(const std::byte* from, float scale, std::span<float> to) {
  for (float& x : to) {
    T stored;
    std::memcpy(&stored, from, sizeof stored);
    from += sizeof stored;
    x = static_cast<float>(stored) * scale;
  }
}

}  // namespace

void require_same(const data::ShardReader& reader, std::size_t file) {
  const std::string& path = reader.files()[file];
  if (io::seal_text(path, core::ExitCode::data) == reader.seals()[file]) return;
  throw core::Error(core::ExitCode::data,
                    path + ": it was replaced after the run began; a run needs its shards until it ends.");
}

EmbeddingRows::EmbeddingRows(const data::ShardReader& reader, std::mutex& hdf5, bool normalizes)
    : reader_(reader), hdf5_(hdf5), normalizes_(normalizes), begins_{0} {
  for (std::size_t f = 0; f < reader.files().size(); ++f) begins_.push_back(begins_.back() + reader.tokens_of(f));
}

void EmbeddingRows::read(std::span<const std::int64_t> sequences, std::span<float> rows) {
  const auto width = static_cast<std::size_t>(columns());
  std::size_t done = 0;
  while (done < sequences.size()) {
    const auto file = static_cast<std::size_t>(std::upper_bound(begins_.begin(), begins_.end(), sequences[done]) -
                                               begins_.begin() - 1);
    const std::int64_t begin = begins_[file], end = begins_[file + 1], first = sequences[done];
    std::size_t here = done;
    while (here < sequences.size() && sequences[here] < end) ++here;
    read_file(file, first - begin, sequences[here - 1] - first + 1);
    for (; done < here; ++done) take(sequences[done] - first, rows.subspan(done * width, width));
  }
}

void EmbeddingRows::read_file(std::size_t file, std::int64_t first, std::int64_t count) {
  const data::ShardInfo& info = reader_.info();
  values_.resize(static_cast<std::size_t>(count * data::embedding_value_bytes(info)));
  scales_.resize(data::embedding_scale_bytes(info) > 0 ? static_cast<std::size_t>(count) : 0);
  const std::lock_guard lock(hdf5_);
  if (checked_ <= file) {
    require_same(reader_, file);
    checked_ = file + 1;
  }
  data::read_embedding_rows(reader_.files()[file], info, first, values_, scales_);
}

/// Widens row `row` of the rows that were read last.
void EmbeddingRows::take(std::int64_t row, std::span<float> to) const {
  const data::ShardInfo& info = reader_.info();
  const std::byte* const from = values_.data() + row * data::embedding_value_bytes(info);
  if (info.row_type == "fp16") {
    widen<core::Fp16>(from, 1, to);
  } else if (info.row_type == "bf16") {
    widen<core::Bf16>(from, 1, to);
  } else if (info.row_type == "int8") {
    widen<std::int8_t>(from, scales_[static_cast<std::size_t>(row)], to);
  } else {
    widen<float>(from, 1, to);
  }
  if (normalizes_) normalize_row(to);
}

}  // namespace bert_hpc::app
