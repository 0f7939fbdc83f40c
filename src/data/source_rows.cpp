#include "bert_hpc/data/source_rows.hpp"

#include <algorithm>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::data {
namespace {

/// (rows + 1): the first sequence of each row, and the number of sequences.
std::vector<std::int64_t> row_begins(const ShardReader& reader) {
  const std::span<const std::int64_t> source = reader.source_index();
  std::vector<std::int64_t> begins;
  for (std::size_t s = 0; s < source.size(); ++s) {
    const bool continues = s > 0 && source[s] == source[s - 1] && reader.location(std::int64_t(s)).sequence > 0;
    if (!continues) begins.push_back(static_cast<std::int64_t>(s));
  }
  begins.push_back(std::ssize(source));
  return begins;
}

/// Equal, or both unknown.
template <class T>
bool same(T a, T b) {
  return a == b || (a != a && b != b);
}

/// Labels of the rows' first sequences; all sequences of a row have the same ones. `width`: elements of a label.
template <class T>
std::vector<T> row_labels(const ShardReader& reader, std::span<const T> labels, std::span<const std::int64_t> begins,
                          std::size_t width) {
  std::vector<T> rows;
  if (labels.empty()) return rows;
  rows.reserve((begins.size() - 1) * width);
  for (std::size_t r = 0; r + 1 < begins.size(); ++r) {
    const std::span<const T> first = labels.subspan(static_cast<std::size_t>(begins[r]) * width, width);
    for (std::int64_t s = begins[r] + 1; s < begins[r + 1]; ++s) {
      const std::span<const T> other = labels.subspan(static_cast<std::size_t>(s) * width, width);
      if (std::equal(first.begin(), first.end(), other.begin(), same<T>)) continue;
      const SampleLocation location = reader.location(s);
      throw core::Error(core::ExitCode::data,
                        location.file + ": sequences " + std::to_string(location.sequence - 1) + " and " +
                            std::to_string(location.sequence) +
                            " have the same '/source_index', so they are windows of "
                            "one row, but different labels. Give each row of the source its own index.");
    }
    rows.insert(rows.end(), first.begin(), first.end());
  }
  return rows;
}

}  // namespace

SourceRows::SourceRows(const ShardReader& reader) {
  if (reader.planned() || std::ssize(reader.source_index()) != reader.samples()) return;
  std::vector<std::int64_t> begins = row_begins(reader);
  if (std::ssize(begins) - 1 == reader.samples()) return;
  classes_ = row_labels(reader, reader.classes(), begins, 1);
  values_ = row_labels(reader, reader.values(), begins, static_cast<std::size_t>(reader.value_columns()));
  sets_ = row_labels(reader, reader.sets(), begins, reader.info().label_names.size());
  begins_ = std::move(begins);
}

std::int64_t SourceRows::memory_bytes() const {
  return static_cast<std::int64_t>(begins_.capacity() * sizeof(std::int64_t) +
                                   classes_.capacity() * sizeof(std::int32_t) + values_.capacity() * sizeof(float) +
                                   sets_.capacity());
}

}  // namespace bert_hpc::data
