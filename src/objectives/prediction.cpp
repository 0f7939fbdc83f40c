#include "bert_hpc/objectives/prediction.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bert_hpc/metrics/levels.hpp"

namespace bert_hpc::objectives {
namespace {

using Integers = std::vector<std::int32_t>;
using Numbers = std::vector<float>;
using Texts = std::vector<std::string>;

constexpr std::int32_t unknown = -1;

std::string name_of(const SampleOutputs& samples, std::size_t number) {
  return number < samples.label_names.size() ? samples.label_names[number] : std::to_string(number);
}

std::size_t rows_of(const SampleOutputs& samples) {
  return static_cast<std::size_t>(samples.rows);
}

std::size_t columns_of(const SampleOutputs& samples) {
  return static_cast<std::size_t>(samples.labels.outputs);
}

/// softmax in place
void softmax(std::span<float> row) {
  const float largest = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (float& x : row) {
    x = std::exp(x - largest);
    sum += x;
  }
  for (float& x : row) x = static_cast<float>(x / sum);
}

/// A column for each of the outputs' names, where they are not many.
void show_probabilities(const SampleOutputs& samples, const Numbers& probabilities, PredictedRows& predicted) {
  const std::size_t columns = columns_of(samples);
  if (samples.labels.outputs > max_name_columns) return;
  for (std::size_t c = 0; c < columns; ++c) {
    Numbers column(rows_of(samples));
    for (std::size_t row = 0; row < column.size(); ++row) column[row] = probabilities[row * columns + c];
    predicted.shown.push_back({"probability_" + name_of(samples, c), std::move(column)});
  }
}

}  // namespace

float probability_of(std::span<const float> outputs, std::size_t output) {
  double sum = 0;
  for (const float other : outputs) sum += std::exp(static_cast<double>(other) - static_cast<double>(outputs[output]));
  return static_cast<float>(1 / sum);
}

PredictedRows predict_classes(const SampleOutputs& samples) {
  const std::size_t rows = rows_of(samples), columns = columns_of(samples);
  const std::span<const std::int32_t> labels = samples.labels.classes;
  Integers label(labels.begin(), labels.end()), prediction(rows);
  label.resize(rows, unknown);
  Numbers probabilities(samples.outputs.begin(), samples.outputs.end()), largest(rows);
  Texts label_name(rows), prediction_name(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::span<float> own = std::span(probabilities).subspan(row * columns, columns);
    const auto best = static_cast<std::size_t>(std::max_element(own.begin(), own.end()) - own.begin());
    softmax(own);
    prediction[row] = static_cast<std::int32_t>(best);
    largest[row] = own[best];
    prediction_name[row] = name_of(samples, best);
    if (label[row] >= 0) label_name[row] = name_of(samples, static_cast<std::size_t>(label[row]));
  }
  PredictedRows predicted;
  predicted.shown = {{"label", std::move(label_name)},
                     {"prediction", std::move(prediction_name)},
                     {"probability", std::move(largest)}};
  show_probabilities(samples, probabilities, predicted);
  predicted.stored = {{"label", std::move(label)},
                      {"prediction", std::move(prediction)},
                      {"probabilities", std::move(probabilities), samples.labels.outputs},
                      {"logits", Numbers(samples.outputs.begin(), samples.outputs.end()), samples.labels.outputs}};
  return predicted;
}

namespace {

/// A column for each of several outputs, "prediction_NAME". values (rows, outputs).
void show_values(const SampleOutputs& samples, const std::string& name, const Numbers& values,
                 PredictedRows& predicted) {
  const std::size_t columns = columns_of(samples);
  for (std::size_t c = 0; c < columns; ++c) {
    Numbers column(rows_of(samples));
    for (std::size_t row = 0; row < column.size(); ++row) column[row] = values[row * columns + c];
    predicted.shown.push_back({name + '_' + name_of(samples, c), std::move(column)});
  }
}

PredictedRows predict_value_columns(const SampleOutputs& samples) {
  const std::span<const float> labels = samples.labels.values;
  Numbers label(labels.begin(), labels.end()), prediction(samples.outputs.begin(), samples.outputs.end());
  label.resize(rows_of(samples) * columns_of(samples), std::numeric_limits<float>::quiet_NaN());
  PredictedRows predicted;
  show_values(samples, "label", label, predicted);
  show_values(samples, "prediction", prediction, predicted);
  const std::int64_t width = samples.labels.outputs;
  predicted.stored = {{"label", std::move(label), width}, {"prediction", std::move(prediction), width}};
  return predicted;
}

}  // namespace

PredictedRows predict_values(const SampleOutputs& samples) {
  if (samples.labels.outputs > 1) return predict_value_columns(samples);
  const std::span<const float> labels = samples.labels.values;
  Numbers label(labels.begin(), labels.end());
  label.resize(rows_of(samples), std::numeric_limits<float>::quiet_NaN());
  PredictedRows predicted;
  predicted.stored = {{"label", std::move(label)},
                      {"prediction", Numbers(samples.outputs.begin(), samples.outputs.end())}};
  if (const std::span<const float> levels = samples.labels.value_levels; !levels.empty()) {
    Numbers nearest;
    for (const float output : samples.outputs) {
      nearest.push_back(std::isnan(output) ? output : levels[metrics::nearest_level(levels, output)]);
    }
    predicted.stored.push_back({"level", std::move(nearest)});
  }
  predicted.shown = predicted.stored;
  return predicted;
}

PredictedRows predict_scores(const SampleOutputs& samples) {
  const std::span<const std::int32_t> levels = samples.labels.levels;
  Integers label(levels.begin(), levels.end());
  label.resize(rows_of(samples), unknown);
  PredictedRows predicted;
  Texts shown;
  for (const std::int32_t level : label) shown.push_back(level == unknown ? std::string() : std::to_string(level));
  predicted.stored = {{"label", std::move(label)},
                      {"prediction", Numbers(samples.outputs.begin(), samples.outputs.end())}};
  predicted.shown = {{"label", std::move(shown)}, predicted.stored.back()};
  return predicted;
}

namespace {

/// The names of the row's members, "a,c"; empty if the set is empty or unknown.
std::string names_of(const SampleOutputs& samples, std::span<const std::int32_t> row) {
  std::string names;
  for (std::size_t c = 0; c < row.size(); ++c) {
    if (row[c] != 1) continue;
    if (!names.empty()) names += ',';
    names += name_of(samples, c);
  }
  return names;
}

}  // namespace

PredictedRows predict_sets(const SampleOutputs& samples) {
  const std::size_t rows = rows_of(samples), columns = columns_of(samples);
  const std::span<const std::uint8_t> labels = samples.labels.sets;
  Integers label(labels.begin(), labels.end()), prediction(rows * columns);
  label.resize(rows * columns, unknown);
  Numbers probabilities(rows * columns);
  for (std::size_t i = 0; i < rows * columns; ++i) {
    const float output = samples.outputs[i];
    prediction[i] = output >= samples.labels.least_output ? 1 : 0;
    probabilities[i] = static_cast<float>(1 / (1 + std::exp(-static_cast<double>(output))));
  }
  Texts label_names(rows), prediction_names(rows);
  for (std::size_t row = 0; row < rows; ++row) {
    label_names[row] = names_of(samples, std::span(label).subspan(row * columns, columns));
    prediction_names[row] = names_of(samples, std::span(prediction).subspan(row * columns, columns));
  }
  PredictedRows predicted;
  predicted.shown = {{"label", std::move(label_names)}, {"prediction", std::move(prediction_names)}};
  show_probabilities(samples, probabilities, predicted);
  const std::int64_t width = samples.labels.outputs;
  predicted.stored = {{"label", std::move(label), width},
                      {"prediction", std::move(prediction), width},
                      {"probabilities", std::move(probabilities), width},
                      {"logits", Numbers(samples.outputs.begin(), samples.outputs.end()), width}};
  return predicted;
}

}  // namespace bert_hpc::objectives
