#include "bert_hpc/app/engine/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/io/predictions_csv.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t block_values = 1 << 20;  // of probabilities that are held at a time

/// softmax in place. logits (rows, classes)
void softmax_rows(std::vector<float>& logits, std::size_t classes) {
  for (std::size_t begin = 0; begin + classes <= logits.size(); begin += classes) {
    const std::span<float> row(logits.data() + begin, classes);
    const float largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (float& x : row) {
      x = std::exp(x - largest);
      sum += x;
    }
    for (float& x : row) x = static_cast<float>(x / sum);
  }
}

/// A part of a column; empty where the column is.
template <class T>
std::span<const T> part(std::span<const T> column, std::size_t begin, std::size_t rows) {
  return column.empty() ? column : column.subspan(begin, rows);
}

/// A block's rows of classes to both files.
void append_classes(io::PredictionsWriter& file, io::PredictionsCsv& text, std::span<const std::int64_t> source_index,
                    std::span<const std::int32_t> label, std::span<const float> logits, std::size_t classes) {
  std::vector<std::int32_t> predicted;
  for (std::size_t i = 0; i < source_index.size(); ++i) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(i * classes);
    predicted.push_back(
        static_cast<std::int32_t>(std::max_element(first, first + static_cast<std::ptrdiff_t>(classes)) - first));
  }
  std::vector<float> probabilities(logits.begin(), logits.end());
  softmax_rows(probabilities, classes);
  file.append(source_index, label, predicted, probabilities);
  text.append(source_index, label, predicted, probabilities);
}

}  // namespace

void write_predictions(const std::string& directory, const PredictionsFacts& facts, const Predictions& predictions,
                       const data::ShardReader& reader) {
  const bool values = tasks::named(facts.task).labels == tasks::Labels::values;
  const auto outputs = static_cast<std::size_t>(predictions.outputs);
  io::PredictionsInfo info;
  info.task = facts.task;
  info.attributes = {{"split", facts.split}};
  if (!reader.info().label_column.empty()) info.attributes.emplace_back("label_column", reader.info().label_column);
  if (!values) {
    info.label_names = facts.label_names;
    info.classes = predictions.outputs;
  }
  io::PredictionsWriter file(directory + "/predictions.h5", info);
  io::PredictionsCsv text(directory + "/predictions.csv", info.label_names, info.classes);
  const std::span<const std::int64_t> sources = reader.source_index();
  const std::size_t block = std::max<std::size_t>(1, block_values / outputs);
  for (std::size_t begin = 0; begin < sources.size(); begin += block) {
    const std::size_t rows = std::min(block, sources.size() - begin);
    const auto own_sources = sources.subspan(begin, rows);
    const auto logits = std::span<const float>(predictions.logits).subspan(begin * outputs, rows * outputs);
    if (values) {
      const auto labels = part(reader.values(), begin, rows);
      file.append(own_sources, labels, logits);
      text.append(own_sources, labels, logits);
    } else {
      append_classes(file, text, own_sources, part(reader.classes(), begin, rows), logits, outputs);
    }
  }
  file.close();
  text.close();
}

}  // namespace bert_hpc::app
