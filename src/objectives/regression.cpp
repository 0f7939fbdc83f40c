// A number for each sequence, or one for each of several label columns, as Transformers' sequence classification with
// the problem_type "regression" has them. The loss is the squared error; of several columns it is the mean over the
// known labels of a step, and some labels of a sequence may be unknown. With one column the loss may also be 1 − the
// concordance between a step's predictions and labels, which is the same for standardized numbers, and with a range of
// predictions (a batch says so) the squared error of the outputs' sigmoids.
#include "bert_hpc/objectives/regression.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/levels.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/concordance_loss.hpp"
#include "bert_hpc/ops/losses.hpp"

namespace bert_hpc::objectives {
namespace {

std::string range_text(double low, double high) {
  return core::format_number(low) + " … " + core::format_number(high);
}

data::LabelScale range_scale(const config::WordOrNumbers& range, std::span<const float> labels) {
  if (labels.empty()) {  // planned data
    return range.numbers.empty() ? data::LabelScale::of_range(0, 1)
                                 : data::LabelScale::of_range(range.numbers[0], range.numbers[1]);
  }
  const auto [low, high] = std::minmax_element(labels.begin(), labels.end());
  if (range.numbers.empty()) {
    if (*low < *high) return data::LabelScale::of_range(*low, *high);
    throw core::Error(core::ExitCode::data, "[task] range = \"labels\": all training labels are " +
                                                core::format_number(*low) + ", which is no range. Give two numbers.");
  }
  const double first = range.numbers[0], last = range.numbers[1];
  if (*low < static_cast<float>(first) || *high > static_cast<float>(last)) {
    throw core::Error(core::ExitCode::input, "the training data have the label " +
                                                 core::format_number(*low < static_cast<float>(first) ? *low : *high) +
                                                 ", which lies outside [task] range = [" + core::format_number(first) +
                                                 ", " + core::format_number(last) +
                                                 "]: widen the range, or remove such rows.");
  }
  return data::LabelScale::of_range(first, last);
}

constexpr std::size_t max_levels = 1000, max_shown_levels = 40;

void squared_error(const layers::LossInput& in) {
  const auto& targets = in.targets<core::ValueTargets>();
  if (!targets.bounded) return layers::squared_error_loss(in);
  ops::sigmoid_squared_error(in.logits(), targets.data, in.scale, in.row_losses, in.d_logits());
}

layers::StepLossKind concordance(const config::Task&) {
  return {.compute = [](const layers::StepOutputs& all, std::int64_t begin, float scale, float* row_losses,
                        core::Tensor<float> d_logits) {
    ops::concordance_loss(all.logits, all.targets<float>(), begin, scale, row_losses, d_logits);
  }};
}

}  // namespace

RegressionSettings regression_settings(const config::Task& task) {
  return {.range = task.list(tasks::range_key),
          .clip_predictions = task.list(tasks::clip_predictions_key),
          .levels = task.list(tasks::levels_key),
          .standardize = task.is_on(tasks::standardize_key),
          .concordance = task.is(tasks::loss_key, tasks::concordance_loss)};
}

data::LabelScale evaluation_label_scale(const RegressionSettings& settings,
                                        const std::optional<std::array<double, 2>>& stated) {
  const std::vector<double>& given = settings.range.numbers;
  if (stated && !given.empty() && (given[0] != stated->front() || given[1] != stated->back())) {
    throw core::Error(core::ExitCode::input, "[task] range is " + range_text(given[0], given[1]) +
                                                 ", but the model was trained with " +
                                                 range_text(stated->front(), stated->back()) +
                                                 ", as prediction_range in its config.json says: remove range.");
  }
  if (stated) return data::LabelScale::of_range(stated->front(), stated->back());
  return given.empty() ? data::LabelScale() : data::LabelScale::of_range(given[0], given[1]);
}

std::vector<float> value_levels(const RegressionSettings& settings, std::span<const float> train_labels) {
  const config::WordOrNumbers& given = settings.levels;
  if (given.word.empty()) return {given.numbers.begin(), given.numbers.end()};
  std::vector<float> levels(train_labels.begin(), train_labels.end());
  std::sort(levels.begin(), levels.end());
  levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
  if (levels.size() <= max_levels) return levels;
  throw core::Error(core::ExitCode::data, "[task] levels = \"labels\" is for at most " + core::with_commas(max_levels) +
                                              " levels, but the training labels have " +
                                              core::with_commas(std::ssize(levels)) +
                                              " values: give a list of levels, or remove the key.");
}

void require_levels(const RegressionSettings& settings, std::span<const float> labels) {
  const std::vector<double>& listed = settings.levels.numbers;
  if (listed.empty()) return;
  const std::vector<float> levels(listed.begin(), listed.end());
  for (const float label : labels) {
    const float level = levels[metrics::nearest_level(levels, label)];
    constexpr float roundings = 1e-6f;  // a label is the nearest number in single precision to what its file says
    if (std::abs(level - label) <= roundings * std::abs(label)) continue;
    throw core::Error(core::ExitCode::input, "the data have the label " + core::format_number(label) +
                                                 ", which is none of [task] levels: add it there, or prepare the data "
                                                 "with the right labels.");
  }
}

std::string levels_text(std::span<const float> levels) {
  std::string text;
  for (std::size_t i = 0; i < std::min(levels.size(), max_shown_levels); ++i) {
    text += (i == 0 ? "levels " : ", ") + core::format_number(levels[i]);
  }
  return text + (levels.size() > max_shown_levels ? ", …" : "");
}

data::LabelScale training_label_scale(const RegressionSettings& settings, std::span<const float> train_labels) {
  if (settings.range.has_value()) return range_scale(settings.range, train_labels);
  return settings.standardize && !train_labels.empty() ? data::fit_label_scale(train_labels) : data::LabelScale();
}

namespace {

/// Known labels of a column. labels (samples, columns).
std::vector<float> known_labels(std::span<const float> labels, std::size_t columns, std::size_t column) {
  std::vector<float> known;
  for (std::size_t i = column; i < labels.size(); i += columns) {
    if (!std::isnan(labels[i])) known.push_back(labels[i]);
  }
  return known;
}

}  // namespace

data::LabelScales training_label_scales(const RegressionSettings& settings, std::span<const float> train_labels,
                                        std::span<const std::string> columns) {
  data::LabelScales scales;
  for (std::size_t c = 0; c < columns.size() && !train_labels.empty(); ++c) {
    const std::vector<float> known = known_labels(train_labels, columns.size(), c);
    if (known.empty()) {
      throw core::Error(core::ExitCode::data, "no row of the training data has a number in the label column \"" +
                                                  columns[c] +
                                                  "\": take it out of [source] label in the input of bert_hpc_prep.");
    }
    if (settings.standardize) scales.push_back(data::fit_label_scale(known));
  }
  return scales;
}

void require_fit_of_columns(const RegressionSettings& settings, std::span<const std::string> columns) {
  core::ProblemList problems;
  const auto refuse = [&problems](bool given, const std::string& key) {
    if (given) problems.add("[task] " + key + ": remove it, or prepare the data with one of the columns.");
  };
  refuse(settings.range.has_value(), "range");
  refuse(!settings.clip_predictions.word.empty(), "clip_predictions = \"labels\" (two numbers are for all columns)");
  refuse(settings.levels.has_value(), "levels");
  refuse(settings.concordance, "loss = \"concordance\"");
  problems.throw_if_any(core::ExitCode::input, "the data have " + core::counted(std::ssize(columns), "label column") +
                                                   " (" + core::listed({columns.begin(), columns.end()}, "and", false) +
                                                   "), and these settings are for one:");
}

PredictionRange prediction_range(const RegressionSettings& settings, std::span<const float> train_labels) {
  const config::WordOrNumbers& range = settings.clip_predictions;
  if (!range.numbers.empty()) {
    return {static_cast<float>(range.numbers.at(0)), static_cast<float>(range.numbers.at(1))};
  }
  if (range.word.empty() || train_labels.empty()) return {};
  const auto [low, high] = std::minmax_element(train_labels.begin(), train_labels.end());
  return {*low, *high};
}

std::string prediction_range_text(const RegressionSettings& settings, const PredictionRange& range) {
  if (range.is_unlimited()) return {};
  const bool of_labels = !settings.clip_predictions.word.empty();
  return "clipped to " + core::format_number(range.low) + " … " + core::format_number(range.high) +
         (of_labels ? ", the range of the training labels" : "");
}

namespace {

/// "mean 6.5, deviation 1.1"
std::string scale_text(const data::LabelScale& scale) {
  return "mean " + core::format_number(scale.mean) + ", deviation " + core::format_number(scale.deviation);
}

std::string loss_text_of_columns(const data::LabelScales& scales, std::span<const std::string> columns) {
  std::string text = "mean squared error of the known labels of " + core::counted(std::ssize(columns), "column");
  if (scales.empty()) return text + " (task.standardize = false)";
  for (std::size_t c = 0; c < columns.size(); ++c) {
    text += (c == 0 ? ", each standardized: " : "; ") + columns[c] + ' ' + scale_text(scales[c]);
  }
  return text;
}

}  // namespace

std::string regression_loss_text(const RegressionSettings& settings, const data::LabelScales& scales,
                                 std::span<const std::string> columns) {
  if (columns.size() > 1) return loss_text_of_columns(scales, columns);
  const data::LabelScale scale = scales.empty() ? data::LabelScale() : scales.front();
  if (scale.bounded) {
    return "squared error of predictions within " + range_text(scale.low(), scale.high()) +
           ", both scaled to 0 … 1 (task.range)";
  }
  const std::string kind =
      settings.concordance ? "1 − the concordance of a step's predictions with its " : "mean squared error of ";
  if (!settings.standardize) {
    return kind + (settings.concordance ? "labels" : "the labels") + " (task.standardize = false)";
  }
  return kind + "standardized labels (" + scale_text(scale) + ")";
}

std::string equal_labels_warning(const data::ShardReader& train) {
  const auto columns = static_cast<std::size_t>(train.value_columns());
  for (std::size_t c = 0; c < columns && !train.values().empty(); ++c) {
    const std::vector<float> known = known_labels(train.values(), columns, c);
    if (known.empty() || !data::all_equal(known)) continue;
    return "all " + core::counted(std::ssize(known), "label") + " of the training data" +
           (columns > 1 ? " in \"" + train.info().label_names[c] + "\"" : "") + " are equal (" +
           core::format_number(known.front()) +
           "): there is nothing to learn from them. Check [source] label in the input of bert_hpc_prep.";
  }
  return {};
}

namespace {

OutputRules rules_of(const RunFacts& run) {
  const RegressionSettings settings = regression_settings(run.task);
  const std::span<const float> labels = run.trains ? run.reader.values() : std::span<const float>();
  if (run.label_names.size() > 1) {
    require_fit_of_columns(settings, run.label_names);
    return {.scales = training_label_scales(settings, labels, run.label_names),
            .range = prediction_range(settings, {})};
  }
  const data::LabelScale scale =
      run.trains ? training_label_scale(settings, labels) : evaluation_label_scale(settings, run.exported);
  return {.scales = scale.is_identity() ? data::LabelScales() : data::LabelScales{scale},
          .range = prediction_range(settings, labels),
          .levels = value_levels(settings, labels)};
}

Lines lines_of(const TrainingFacts& training) {
  const RegressionSettings settings = regression_settings(training.task);
  return {{"loss", regression_loss_text(settings, training.rules.scales, training.label_names)},
          {"predictions", prediction_range_text(settings, training.rules.range)},
          {"metrics", levels_text(training.rules.levels)}};
}

}  // namespace

Objective regression() {
  return {.task = tasks::find("regression"),
          .head = layers::sequence_head(squared_error),
          .predict = predict_values,
          .step_losses = {{tasks::concordance_loss, concordance}},
          .distillation = {layers::soft_class_loss, {"mse_logits"}},
          .output_rules = rules_of,
          .check_labels =
              [](const config::Task& task, const data::ShardReader& reader) {
                require_levels(regression_settings(task), reader.values());
              },
          .training_lines = lines_of,
          .training_warning = equal_labels_warning};
}

}  // namespace bert_hpc::objectives
