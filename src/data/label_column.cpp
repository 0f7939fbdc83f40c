#include "bert_hpc/data/label_column.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/spare_capacity.hpp"
#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {

using tasks::Labels;

namespace {

/// Calls `each` for each array of a LabelColumn.
template <class Column, class Do>
void for_each_array(Column& column, const Do& each) {
  std::apply([&each](auto&... all) { (each(all), ...); }, LabelColumn::fields(column));
}

}  // namespace

void LabelColumn::append(const LabelColumn& more) {
  classes.insert(classes.end(), more.classes.begin(), more.classes.end());
  values.insert(values.end(), more.values.begin(), more.values.end());
  sets.insert(sets.end(), more.sets.begin(), more.sets.end());
  spans.insert(spans.end(), more.spans.begin(), more.spans.end());
  words.insert(words.end(), more.words.begin(), more.words.end());
  levels.insert(levels.end(), more.levels.begin(), more.levels.end());
}

void LabelColumn::reserve(double times) {
  for_each_array(
      *this, [times](auto& all) { all.reserve(static_cast<std::size_t>(static_cast<double>(all.size()) * times)); });
}

void LabelColumn::give_back() {
  for_each_array(*this, [](auto& all) { core::give_back_spare(all); });
}

std::int64_t LabelColumn::memory_bytes() const {
  std::size_t bytes = 0;
  for_each_array(*this, [&bytes](const auto& all) { bytes += all.capacity() * sizeof(all[0]); });
  return static_cast<std::int64_t>(bytes);
}

LabelType label_type(Labels kind, std::int64_t sequences, std::int64_t names, std::int64_t words) {
  using Type = io::DatasetInfo::TypeClass;
  if (kind == Labels::classes || kind == Labels::levels) return {Type::integer, 4, true, {sequences}};
  if (kind == Labels::sets) return {Type::integer, 1, false, {sequences, names}};
  if (kind == Labels::spans) return {Type::integer, 4, true, {sequences, 2}};
  if (kind == Labels::words) return {Type::integer, 4, true, {words}};
  if (names > 0) return {Type::real, 4, false, {sequences, names}};
  return {Type::real, 4, false, {sequences}};
}

namespace {

using Fail = std::function<void(std::int64_t sequence, const std::string& what)>;

void check_classes(const std::vector<std::int32_t>& classes, std::int64_t names, const Fail& fail) {
  for (std::size_t s = 0; s < classes.size(); ++s) {
    const std::int64_t label = classes[s];
    if (label >= 0 && label < names) continue;
    fail(static_cast<std::int64_t>(s),
         " has label " + std::to_string(label) + "; labels must lie between 0 and " + std::to_string(names - 1) + ".");
  }
}

void check_words(const std::vector<std::int32_t>& classes, std::span<const std::int64_t> offsets, std::int64_t names,
                 const Fail& fail) {
  const auto bad =
      std::find_if(classes.begin(), classes.end(), [names](std::int32_t label) { return label < 0 || label >= names; });
  if (bad == classes.end()) return;
  const std::int64_t word = bad - classes.begin();
  const std::int64_t sequence = std::upper_bound(offsets.begin(), offsets.end(), word) - offsets.begin() - 1;
  fail(sequence, ": word " + std::to_string(word - offsets[static_cast<std::size_t>(sequence)]) + " has label " +
                     std::to_string(*bad) + "; labels must lie between 0 and " + std::to_string(names - 1) + ".");
}

/// columns: of labels; of several some may be unknown, but not all.
void check_values(std::span<const float> values, std::size_t columns, const Fail& fail) {
  for (std::size_t s = 0; s * columns < values.size(); ++s) {
    const std::span<const float> own = values.subspan(s * columns, columns);
    const bool infinite = std::any_of(own.begin(), own.end(), [](float value) { return std::isinf(value); });
    const bool known = std::any_of(own.begin(), own.end(), [](float value) { return std::isfinite(value); });
    if (known && !infinite) continue;
    fail(static_cast<std::int64_t>(s), std::string(infinite ? " has an infinite label" : " has no label (NaN)") +
                                           "; each sequence needs a finite value.");
  }
}

void check_sets(const std::vector<std::uint8_t>& sets, std::int64_t names, const Fail& fail) {
  const auto bad = std::find_if(sets.begin(), sets.end(), [](std::uint8_t element) { return element > 1; });
  if (bad == sets.end()) return;
  const std::int64_t index = bad - sets.begin();
  fail(index / names, " has " + std::to_string(*bad) + " for label name " + std::to_string(index % names) +
                          "; a set holds 1 for each of its label names and 0 for the others.");
}

void check_spans(const std::vector<std::int32_t>& spans, std::span<const std::int64_t> offsets, const Fail& fail) {
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const std::int64_t first = spans[2 * s], last = spans[2 * s + 1], length = offsets[s + 1] - offsets[s];
    if (first >= 0 && first <= last && last < length) continue;
    fail(static_cast<std::int64_t>(s), " has an answer from token " + std::to_string(first) + " to " +
                                           std::to_string(last) + "; it must lie within the sequence's " +
                                           std::to_string(length) + " tokens.");
  }
}

void check_levels(const std::vector<std::int32_t>& levels, const Fail& fail) {
  const auto bad = std::find_if(levels.begin(), levels.end(), [](std::int32_t level) { return level < 0; });
  if (bad == levels.end()) return;
  fail(bad - levels.begin(), " has level " + std::to_string(*bad) + "; a level of relevance is 0 for none, or larger.");
}

}  // namespace

LabelColumn read_labels(const io::Dataset& dataset, Labels kind, std::span<const std::int64_t> offsets,
                        std::int64_t names, const Fail& fail) {
  LabelColumn labels;
  const std::size_t count = offsets.size() - 1;
  if (kind == Labels::classes) {
    labels.classes.resize(count);
    dataset.read_rows(0, labels.classes);
    check_classes(labels.classes, names, fail);
  }
  if (kind == Labels::values || kind == Labels::scores) {
    const std::size_t columns = std::max<std::size_t>(1, static_cast<std::size_t>(names));
    labels.values.resize(count * columns);
    dataset.read_rows(0, labels.values);
    check_values(labels.values, columns, fail);
  }
  if (kind == Labels::sets) {
    labels.sets.resize(count * static_cast<std::size_t>(names));
    dataset.read_rows(0, labels.sets);
    check_sets(labels.sets, names, fail);
  }
  if (kind == Labels::spans) {
    labels.spans.resize(2 * count);
    dataset.read_rows(0, labels.spans);
    check_spans(labels.spans, offsets, fail);
  }
  if (kind == Labels::words) {
    labels.words.resize(static_cast<std::size_t>(offsets.back()));
    dataset.read_rows(0, labels.words);
    check_words(labels.words, offsets, names, fail);
  }
  if (kind == Labels::levels) {
    labels.levels.resize(count);
    dataset.read_rows(0, labels.levels);
    check_levels(labels.levels, fail);
  }
  return labels;
}

LabelColumn planned_labels(Labels kind, std::int64_t sequences, std::int64_t names, std::int64_t words) {
  LabelColumn labels;
  if (kind == Labels::classes) labels.classes.assign(static_cast<std::size_t>(sequences), 0);
  if (kind == Labels::values || kind == Labels::scores) {
    const auto columns = static_cast<std::size_t>(std::max<std::int64_t>(1, names));
    for (std::int64_t s = 0; s < sequences; ++s) {
      labels.values.insert(labels.values.end(), columns, s % 2 == 0 ? -1.0f : 1.0f);
    }
  }
  if (kind == Labels::sets) {
    labels.sets.assign(static_cast<std::size_t>(sequences * names), 0);
    for (std::int64_t s = 0; s < sequences; ++s) labels.sets[static_cast<std::size_t>(s * names + s % names)] = 1;
  }
  if (kind == Labels::spans) labels.spans.assign(static_cast<std::size_t>(2 * sequences), 0);
  if (kind == Labels::words) labels.words.assign(static_cast<std::size_t>(words), 0);
  for (std::int64_t s = 0; kind == Labels::levels && s < sequences; ++s) labels.levels.push_back(s % 2 == 0 ? 1 : 0);
  return labels;
}

namespace {

constexpr std::int64_t most_chunk_bytes = std::int64_t{1} << 18;  // of sets

/// Chunks of as many rows as `storage` has, or of as few as a reader takes at once.
io::Storage storage_of_sets(io::Storage storage, std::int64_t names) {
  storage.chunk_rows = std::clamp<std::int64_t>(most_chunk_bytes / names, 1, storage.chunk_rows);
  return storage;
}

}  // namespace

LabelWriter::LabelWriter(io::Hdf5File& file, Labels kind, std::int64_t names, const io::Storage& storage) {
  if (kind == Labels::classes || kind == Labels::levels) classes_.emplace_back(file, shard_dataset::labels, storage);
  if (kind == Labels::values || kind == Labels::scores)
    values_.emplace_back(file, shard_dataset::labels, storage, names);
  if (kind == Labels::spans) spans_.emplace_back(file, shard_dataset::labels, storage, 2);
  if (kind == Labels::words) words_.emplace_back(file, shard_dataset::labels, storage);
  if (kind == Labels::sets) {
    core::require(names > 0, "sets of labels have label names");
    sets_.emplace_back(file, shard_dataset::labels, storage_of_sets(storage, names), names);
    row_.resize(static_cast<std::size_t>(names));
  }
}

void LabelWriter::append(const Label& label) {
  for (auto& classes : classes_) classes.append(label.number);
  for (auto& values : values_) values.append(label.values);
  for (auto& spans : spans_) spans.append(std::span<const std::int32_t>(std::array{label.first, label.last}));
  for (auto& words : words_) words.append(label.words);
  for (auto& sets : sets_) {
    std::fill(row_.begin(), row_.end(), std::uint8_t{0});
    for (const std::int32_t name : label.names) row_[static_cast<std::size_t>(name)] = 1;
    sets.append(std::span<const std::uint8_t>(row_));
  }
}

void LabelWriter::finish() {
  for (auto& classes : classes_) classes.finish();
  for (auto& values : values_) values.finish();
  for (auto& sets : sets_) sets.finish();
  for (auto& spans : spans_) spans.finish();
  for (auto& words : words_) words.finish();
}

}  // namespace bert_hpc::data
