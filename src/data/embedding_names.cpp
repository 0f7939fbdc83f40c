#include "bert_hpc/data/embedding_names.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;

[[noreturn]] void damaged(const std::string& path, const std::string& what) {
  throw Error(ExitCode::data, path + ": " + what);
}

/// Texts of which `offsets` say where each begins and ends in the dataset.
NameList read_names(const io::Hdf5File& file, const char* dataset, std::vector<std::int64_t> offsets) {
  const io::Dataset bytes = file.dataset(dataset);
  const std::int64_t first = offsets.front(), last = offsets.back();
  const std::vector<std::int64_t>& extents = bytes.info().extents;
  const bool fits =
      first >= 0 && std::is_sorted(offsets.begin(), offsets.end()) && extents.size() == 1 && last <= extents.front();
  if (!fits) damaged(file.path(), std::string("the offsets of '") + dataset + "' are damaged.");
  NameList names;
  std::vector<std::uint8_t> read(static_cast<std::size_t>(last - first));
  if (!read.empty()) bytes.read_rows(first, read);
  names.bytes.assign(read.begin(), read.end());
  for (std::int64_t& offset : offsets) offset -= first;
  names.offsets = std::move(offsets);
  return names;
}

}  // namespace

void NameList::add(std::string_view name) {
  bytes += name;
  offsets.push_back(std::ssize(bytes));
}

std::string_view NameList::operator[](std::int64_t number) const {
  const auto at = static_cast<std::size_t>(number);
  return std::string_view(bytes).substr(static_cast<std::size_t>(offsets[at]),
                                        static_cast<std::size_t>(offsets[at + 1] - offsets[at]));
}

void add_row_names(const io::Hdf5File& shard, std::span<const std::int64_t> rows, std::int64_t first, NameList& names) {
  if (first == std::ssize(rows)) return;
  std::vector<std::int64_t> row_of(rows.size());  // number of each sequence's row in the shard
  for (std::size_t s = 1; s < rows.size(); ++s) row_of[s] = row_of[s - 1] + (rows[s] != rows[s - 1] ? 1 : 0);
  const std::int64_t first_row = row_of[static_cast<std::size_t>(first)];
  const io::Dataset all = shard.dataset(shard_dataset::text_offsets);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(row_of.back() - first_row) + 2);
  const std::vector<std::int64_t>& extents = all.info().extents;
  if (extents.size() != 1 || extents.front() < first_row + std::ssize(offsets)) {
    damaged(shard.path(), "'/texts' hold fewer rows than there are in '/source_index'.");
  }
  all.read_rows(first_row, offsets);
  const NameList of_rows = read_names(shard, shard_dataset::texts, std::move(offsets));
  for (auto s = static_cast<std::size_t>(first); s < rows.size(); ++s) names.add(of_rows[row_of[s] - first_row]);
}

EmbeddedTexts read_embedded_texts(const std::string& path) {
  const io::Hdf5File file = io::Hdf5File::open_read(path, ExitCode::data);
  EmbeddedTexts texts;
  if (file.has_attribute("/", shard_attribute::task)) texts.task = file.text_attribute("/", shard_attribute::task);
  if (file.has_attribute("/", "data_hash")) texts.data_hash = file.text_attribute("/", "data_hash");
  if (!file.exists(names_dataset) || !file.exists(name_offsets_dataset)) return texts;
  const std::int64_t sequences = file.integer_attribute("/", "sequences");
  const io::Dataset all = file.dataset(name_offsets_dataset);
  if (sequences < 0 || all.info().extents != std::vector<std::int64_t>{sequences + 1}) {
    damaged(path, "its names do not fit its sequences.");
  }
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(sequences) + 1);
  all.read_rows(0, offsets);
  texts.names = read_names(file, names_dataset, std::move(offsets));
  return texts;
}

}  // namespace bert_hpc::data
