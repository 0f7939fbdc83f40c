#include "app/engine/embedding_input.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "app/engine/embedding_rows.hpp"
#include "bert_hpc/comm/node_pages.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/cache_line.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/embedding_shard.hpp"
#include "bert_hpc/layers/feature_rows.hpp"

namespace bert_hpc::app {
namespace {

using core::Error;
using core::ExitCode;

/// Rows [begin, end) of a file.
struct RowRange {
  std::int64_t begin, end;
};

std::array<data::ShardReader*, 3> readers_of(const DataSets& sets) {
  std::array<data::ShardReader*, 3> readers{sets.train.get(), sets.validation.get(), sets.test.get()};
  for (auto& reader : readers) {
    if (reader != nullptr && !reader->has_embeddings()) reader = nullptr;
  }
  return readers;
}

/// A table of rows in one piece of memory: numbers, then scales from a cache line on.
class TableMemory {
 public:
  TableMemory(const data::ShardInfo& info, std::int64_t rows)
      : value_bytes_(data::embedding_value_bytes(info)), scale_bytes_(data::embedding_scale_bytes(info)), rows_(rows) {}

  std::int64_t bytes() const { return first_scale() + rows_ * scale_bytes_; }
  std::byte* values(std::byte* memory, std::int64_t row) const { return memory + row * value_bytes_; }
  /// Null for numbers without scales.
  float* scales(std::byte* memory, std::int64_t row) const {
    return scale_bytes_ == 0 ? nullptr : reinterpret_cast<float*>(memory + first_scale()) + row;
  }
  std::size_t value_bytes(RowRange range) const {
    return static_cast<std::size_t>((range.end - range.begin) * value_bytes_);
  }
  std::size_t scales_of(RowRange range) const {
    return scale_bytes_ == 0 ? 0 : static_cast<std::size_t>(range.end - range.begin);
  }
  /// Rows that a part of some tens of MiB holds.
  std::int64_t rows_of_part() const { return std::max<std::int64_t>(1, (std::int64_t{32} << 20) / value_bytes_); }

 private:
  std::int64_t first_scale() const {
    constexpr std::int64_t line = core::floats_of_cache_line * std::int64_t{sizeof(float)};
    return (rows_ * value_bytes_ + line - 1) / line * line;
  }

  std::int64_t value_bytes_, scale_bytes_, rows_;
};

/// Calls read(path, rows of the file, row of the table at which they begin) for this process's part of each file.
template <class Read>
void for_files(const DataSets& sets, const comm::NodePosition& position, const Read& read) {
  std::int64_t first = 0;
  for (const data::ShardReader* reader : readers_of(sets)) {
    if (reader == nullptr) continue;
    for (std::size_t f = 0; f < reader->files().size(); ++f) {
      const std::int64_t rows = reader->tokens_of(f);
      const RowRange mine{rows * position.rank / position.ranks, rows * (position.rank + 1) / position.ranks};
      if (mine.begin < mine.end) {
        require_same(*reader, f);
        read(reader->files()[f], mine, first + mine.begin);
      }
      first += rows;
    }
  }
}

/// Each rank of a node reads a part of the rows into memory that all of them share.
std::byte* read_to_node(DataSets& sets, const data::ShardInfo& info, const TableMemory& table,
                        std::shared_ptr<void>& owner) {
  const auto pages = std::make_shared<comm::NodePages>(static_cast<std::size_t>(table.bytes()));
  sets.ranks_of_node = pages->position().ranks;
  std::byte* const memory = pages->memory().data();
  owner = pages;
  for_files(sets, pages->position(), [&](const std::string& path, RowRange rows, std::int64_t at) {
    data::read_embedding_rows(path, info, rows.begin, {table.values(memory, at), table.value_bytes(rows)},
                              {table.scales(memory, at), table.scales_of(rows)});
  });
  return memory;
}

/// Each rank has all rows in the memory of its device.
std::byte* read_to_device(const DataSets& sets, const data::ShardInfo& info, const TableMemory& table,
                          std::shared_ptr<void>& owner) {
  const auto buffer = std::make_shared<core::Buffer<std::byte>>(table.bytes());
  std::byte* const memory = buffer->data();
  owner = buffer;
  std::vector<std::byte> values;
  std::vector<float> scales;
  for_files(sets, {.rank = 0, .ranks = 1}, [&](const std::string& path, RowRange rows, std::int64_t at) {
    for (std::int64_t begin = rows.begin; begin < rows.end; begin += table.rows_of_part()) {
      const RowRange part{begin, std::min(rows.end, begin + table.rows_of_part())};
      const std::int64_t row = at + begin - rows.begin;
      values.resize(table.value_bytes(part));
      scales.resize(table.scales_of(part));
      data::read_embedding_rows(path, info, begin, values, scales);
      core::copy_to_device(values.data(), table.values(memory, row), values.size());
      if (!scales.empty()) {
        core::copy_to_device(scales.data(), table.scales(memory, row), scales.size() * sizeof(float));
      }
    }
  });
  return memory;
}

ops::StoredType stored_type(const std::string& name) {
  if (name == "fp16") return ops::StoredType::fp16;
  if (name == "bf16") return ops::StoredType::bf16;
  return name == "int8" ? ops::StoredType::int8 : ops::StoredType::fp32;
}

}  // namespace

std::int64_t feature_bytes(const DataSets& sets) {
  std::int64_t rows = 0;
  const data::ShardInfo* info = nullptr;
  for (const data::ShardReader* reader : readers_of(sets)) {
    if (reader == nullptr) continue;
    rows += reader->info().tokens;
    info = &reader->info();
  }
  return info == nullptr ? 0 : TableMemory(*info, rows).bytes();
}

void load_features(DataSets& sets, bool computes_input) {
  std::int64_t rows = 0;
  const data::ShardInfo* info = nullptr;
  for (data::ShardReader* reader : readers_of(sets)) {
    if (reader == nullptr) continue;
    reader->set_first_row(rows);
    rows += reader->info().tokens;
    info = &reader->info();
  }
  if (info == nullptr) return;
  if (rows > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ExitCode::data, "the embeddings have " + core::with_commas(rows) +
                                    " rows, more than a run can number: train on a part of them.");
  }
  const TableMemory table(*info, rows);
  const bool shares = core::host_sees_device_memory();
  if (!shares && !computes_input) return;
  auto features = std::make_shared<layers::FeatureTable>();
  std::byte* const memory = shares ? read_to_node(sets, *info, table, features->memory)
                                   : read_to_device(sets, *info, table, features->memory);
  features->rows = {.type = stored_type(info->row_type),
                    .values = table.values(memory, 0),
                    .scales = table.scales(memory, 0),
                    .rows = rows,
                    .columns = info->columns};
  sets.features = std::move(features);
}

}  // namespace bert_hpc::app
