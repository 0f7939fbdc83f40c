#include "bert_hpc/app/engine/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/io/predictions_csv.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t block_values = 1 << 16;  // of outputs that are turned into columns at a time

/// Rows of a column of labels; none where the column is empty.
template <class T>
std::span<const T> part(std::span<const T> column, std::size_t begin, std::size_t rows, std::size_t width = 1) {
  return column.empty() ? column : column.subspan(begin * width, rows * width);
}

}  // namespace

double least_output(const config::Task& task) {
  const double threshold = task.number(tasks::threshold_key, 0.5);
  return std::log(threshold / (1 - threshold));
}

void write_predictions(const std::string& directory, const PredictionsFacts& facts, const Predictions& predictions,
                       const data::ShardReader& reader) {
  if (facts.objective.predict == nullptr) return io::write_answer_files(directory, predictions.answers);
  const auto outputs = static_cast<std::size_t>(predictions.outputs);
  const std::span<const float> logits = predictions.logits;
  const auto predicted = [&](std::size_t begin, std::size_t rows) {
    return facts.objective.predict({.rows = static_cast<std::int64_t>(rows),
                                    .outputs = logits.subspan(begin * outputs, rows * outputs),
                                    .labels = {.outputs = predictions.outputs,
                                               .values = part(reader.values(), begin, rows),
                                               .classes = part(reader.classes(), begin, rows),
                                               .sets = part(reader.sets(), begin, rows, outputs),
                                               .least_output = facts.least_output},
                                    .label_names = facts.label_names});
  };
  io::PredictionsInfo info;
  info.task = facts.objective.task->name;
  info.attributes = {{"split", facts.split}};
  if (!reader.info().label_column.empty()) info.attributes.emplace_back("label_column", reader.info().label_column);
  if (facts.objective.task->has_label_names()) info.label_names = facts.label_names;
  const objectives::PredictedRows columns = predicted(0, 0);
  io::PredictionsWriter file(directory + "/predictions.h5", info, columns.stored);
  io::PredictionsCsv text(directory + "/predictions.csv", columns.shown);
  const std::span<const std::int64_t> sources = reader.source_index();
  const std::size_t block = std::max<std::size_t>(1, block_values / outputs);
  for (std::size_t begin = 0; begin < sources.size(); begin += block) {
    const std::size_t rows = std::min(block, sources.size() - begin);
    const objectives::PredictedRows part_of_rows = predicted(begin, rows);
    file.append(sources.subspan(begin, rows), part_of_rows.stored);
    text.append(sources.subspan(begin, rows), part_of_rows.shown);
  }
  file.close();
  text.close();
}

}  // namespace bert_hpc::app
