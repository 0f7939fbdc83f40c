#include "bert_hpc/data/label_column.hpp"

#include <cmath>

#include "bert_hpc/data/shard_schema.hpp"

namespace bert_hpc::data {

using tasks::Labels;

void LabelColumn::append(const LabelColumn& more) {
  classes.insert(classes.end(), more.classes.begin(), more.classes.end());
  values.insert(values.end(), more.values.begin(), more.values.end());
}

std::int64_t LabelColumn::memory_bytes() const {
  return static_cast<std::int64_t>(classes.capacity() * sizeof(std::int32_t) + values.capacity() * sizeof(float));
}

LabelType label_type(Labels kind) {
  using Type = io::DatasetInfo::TypeClass;
  return kind == Labels::classes ? LabelType{Type::integer, 4, true} : LabelType{Type::real, 4, false};
}

LabelColumn read_labels(const io::Dataset& dataset, Labels kind, std::int64_t sequences, std::int64_t classes,
                        const std::function<void(std::int64_t sequence, const std::string& what)>& fail) {
  LabelColumn labels;
  const auto count = static_cast<std::size_t>(sequences);
  if (kind == Labels::classes) {
    labels.classes.resize(count);
    dataset.read_rows(0, labels.classes);
    for (std::size_t s = 0; s < count; ++s) {
      const std::int64_t label = labels.classes[s];
      if (label >= 0 && label < classes) continue;
      fail(static_cast<std::int64_t>(s), " has label " + std::to_string(label) + "; labels must lie between 0 and " +
                                             std::to_string(classes - 1) + ".");
    }
  }
  if (kind == Labels::values) {
    labels.values.resize(count);
    dataset.read_rows(0, labels.values);
    for (std::size_t s = 0; s < count; ++s) {
      const float value = labels.values[s];
      if (std::isfinite(value)) continue;
      fail(static_cast<std::int64_t>(s),
           std::string(std::isnan(value) ? " has no label (NaN)" : " has an infinite label") +
               "; regression needs a finite value for every sequence.");
    }
  }
  return labels;
}

LabelColumn planned_labels(Labels kind, std::int64_t sequences) {
  LabelColumn labels;
  if (kind == Labels::classes) labels.classes.assign(static_cast<std::size_t>(sequences), 0);
  if (kind == Labels::values) {
    for (std::int64_t s = 0; s < sequences; ++s) labels.values.push_back(s % 2 == 0 ? -1.0f : 1.0f);
  }
  return labels;
}

LabelWriter::LabelWriter(io::Hdf5File& file, Labels kind, const io::Storage& storage) {
  if (kind == Labels::classes) classes_.emplace_back(file, shard_dataset::labels, storage);
  if (kind == Labels::values) values_.emplace_back(file, shard_dataset::labels, storage);
}

void LabelWriter::append(double label) {
  for (auto& classes : classes_) classes.append(static_cast<std::int32_t>(label));
  for (auto& values : values_) values.append(static_cast<float>(label));
}

void LabelWriter::finish() {
  for (auto& classes : classes_) classes.finish();
  for (auto& values : values_) values.finish();
}

}  // namespace bert_hpc::data
