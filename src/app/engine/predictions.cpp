#include "bert_hpc/app/engine/predictions.hpp"

#include <algorithm>
#include <cmath>
#include <span>

#include "bert_hpc/app/engine/ranking_files.hpp"
#include "bert_hpc/app/engine/sample_results.hpp"
#include "bert_hpc/data/row_texts.hpp"
#include "bert_hpc/data/words.hpp"
#include "bert_hpc/io/conll_file.hpp"
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

/// Sentence by sentence, in the order of the data.
void write_words(const std::string& path, const std::vector<std::string>& names,
                 const std::vector<std::int32_t>& predicted, const data::ShardReader& reader) {
  require_texts(reader);
  std::mutex held;  // the caller's lock is
  data::RowTextsReader rows(reader, held);
  io::ConllFile file(path);
  const std::span<const std::int32_t> known = reader.word_classes();
  std::string_view words;  // those of the sentence that are left
  std::size_t next = 0;
  while (rows.next()) {
    if (rows.starts_row()) {
      if (rows.sample() > 0) file.end_sentence();
      words = rows.texts().front();
    }
    for (std::int64_t i = reader.words().count(rows.sample()); i > 0; --i, ++next) {
      const std::size_t end = std::min(words.find(data::word_end), words.size());
      const std::string_view gold =
          known.empty() ? std::string_view() : names.at(static_cast<std::size_t>(known[next]));
      file.add(words.substr(0, end), gold, names.at(static_cast<std::size_t>(predicted[next])));
      words.remove_prefix(std::min(end + 1, words.size()));
    }
  }
  file.end_sentence();
  file.close();
}

}  // namespace

double output_of(double probability) {
  return std::log(probability / (1 - probability));
}

double least_output(const config::Task& task) {
  const std::vector<double> given = task.list(tasks::threshold_key).numbers;
  return output_of(given.empty() ? 0.5 : given.front());
}

void write_predictions(const std::string& directory, const PredictionsFacts& facts, const Predictions& predictions,
                       const data::ShardReader& reader) {
  if (facts.objective.task->labels == tasks::Labels::spans) {
    return io::write_answer_files(directory, predictions.answers);
  }
  if (facts.objective.task->labels == tasks::Labels::words) {
    return write_words(directory + "/predictions.conll", facts.label_names, predictions.words, reader);
  }
  if (facts.objective.task->ranks_candidates()) return write_rankings(directory, facts, predictions, reader);
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
