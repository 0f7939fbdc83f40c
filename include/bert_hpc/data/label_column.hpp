// The labels of sequences and words, as the dataset /labels of shards and the program's memory hold them. The kinds of
// labels (tasks::Labels) are distinguished here alone: a further kind is a case in each of these functions.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "bert_hpc/io/hdf5/hdf5.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::data {

/// Labels of a data set: the array of the task's kind is filled, none if the labels are not known.
struct LabelColumn {
  std::vector<std::int32_t> classes;  ///< (sequences)
  std::vector<float> values;          ///< (sequences), or (sequences, label columns); NaN: unknown, of several
  std::vector<std::uint8_t> sets;     ///< (sequences, label names), 0 or 1
  std::vector<std::int32_t> spans;    ///< (sequences, 2): positions of the answer's first and last token
  std::vector<std::int32_t> words;    ///< (words): the class of each, one sequence's after the other's
  std::vector<std::int32_t> levels;   ///< (sequences): of relevance, at least 0

  void append(const LabelColumn& more);
  void reserve(double times);  ///< memory for so many times what it holds
  void give_back();            ///< what was reserved too much, where that is a lot
  std::int64_t memory_bytes() const;

  /// For core/message.hpp.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.classes, self.values, self.sets, self.spans, self.words, self.levels);
  }
};

/// The label of one sequence: the member of the task's kind counts.
struct Label {
  std::int32_t number = 0;                ///< the class, or the level
  std::span<const float> values{};        ///< the value, or those of several label columns
  std::span<const std::int32_t> names{};  ///< numbers of the label names in the set, each once
  std::int32_t first = 0, last = 0;       ///< the span; (0, 0): the sequence holds no answer
  std::span<const std::int32_t> words{};  ///< the class of each word
};

/// The type of the dataset's elements, and its shape.
struct LabelType {
  io::DatasetInfo::TypeClass type_class;
  std::int64_t bytes;
  bool is_signed;
  std::vector<std::int64_t> extents;
};
LabelType label_type(tasks::Labels kind, std::int64_t sequences, std::int64_t names, std::int64_t words = 0);

/// Reads the dataset, which has that type and shape. `names`: label names, or several label columns of values.
/// `offsets` (sequences + 1): where each begins among the tokens, or for classes of words among the words.
/// `fail(sequence, what)` throws; it is called for a class outside [0, names), for a value that is not finite, or if
/// none of several is, for a set's element other than 0 and 1, for a span that does not lie within its sequence, and
/// for a level below 0.
LabelColumn read_labels(const io::Dataset& dataset, tasks::Labels kind, std::span<const std::int64_t> offsets,
                        std::int64_t names,
                        const std::function<void(std::int64_t sequence, const std::string& what)>& fail);

/// Labels of data that do not exist yet: class 0; values around 0 that differ; sets of one name; no answers; each
/// second sequence is relevant.
LabelColumn planned_labels(tasks::Labels kind, std::int64_t sequences, std::int64_t names, std::int64_t words = 0);

/// Appends to the dataset, which is made where the kind has one.
class LabelWriter {
 public:
  /// `names`: as of read_labels().
  LabelWriter(io::Hdf5File& file, tasks::Labels kind, std::int64_t names, const io::Storage& storage);
  void append(const Label& label);  ///< ignored where there is no dataset
  void finish();

 private:
  std::vector<io::Appender<std::int32_t>> classes_;  // one or none, as of the others
  std::vector<io::Appender<float>> values_;
  std::vector<io::Appender<std::uint8_t>> sets_;
  std::vector<io::Appender<std::int32_t>> spans_;
  std::vector<io::Appender<std::int32_t>> words_;
  std::vector<std::uint8_t> row_;  // of a set
};

}  // namespace bert_hpc::data
