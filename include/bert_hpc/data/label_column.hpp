// The labels of sequences, as the dataset /labels of shards and the program's memory hold them. The kinds of labels
// (tasks::Labels) are distinguished here alone: a further kind is a case in each of these functions.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bert_hpc/io/hdf5.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::data {

/// Of the arrays that of the task's kind is filled; none where the labels are not known.
struct LabelColumn {
  std::vector<std::int32_t> classes;  ///< (sequences)
  std::vector<float> values;          ///< (sequences)

  void append(const LabelColumn& more);
  std::int64_t memory_bytes() const;
};

/// The type of the dataset's elements.
struct LabelType {
  io::DatasetInfo::TypeClass type_class;
  std::int64_t bytes;
  bool is_signed;
};
LabelType label_type(tasks::Labels kind);

/// Reads the dataset, which has `sequences` rows of that type. `fail(sequence, what)` throws; it is called for a class
/// outside [0, classes) and for a value that is not finite.
LabelColumn read_labels(const io::Dataset& dataset, tasks::Labels kind, std::int64_t sequences, std::int64_t classes,
                        const std::function<void(std::int64_t sequence, const std::string& what)>& fail);

/// Labels of data that do not exist yet: class 0; values around 0 that differ.
LabelColumn planned_labels(tasks::Labels kind, std::int64_t sequences);

/// Appends to the dataset, which is made where the kind has one.
class LabelWriter {
 public:
  LabelWriter(io::Hdf5File& file, tasks::Labels kind, const io::Storage& storage);
  void append(double label);  ///< the class or the value; ignored where there is no dataset
  void finish();

 private:
  std::vector<io::Appender<std::int32_t>> classes_;  // one or none
  std::vector<io::Appender<float>> values_;
};

}  // namespace bert_hpc::data
