// One class of several for each sequence, as Transformers' sequence classification has it.
#include "bert_hpc/objectives/classification.hpp"

#include <numeric>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {
namespace {

/// The text names so many classes, at most.
constexpr std::size_t max_named_weights = 8;

std::vector<double> class_counts(std::span<const std::int32_t> labels, std::size_t classes) {
  std::vector<double> counts(classes);
  for (const std::int32_t label : labels) counts.at(static_cast<std::size_t>(label)) += 1;
  return counts;
}

/// n / (classes · count), as scikit-learn's compute_class_weight("balanced").
std::vector<double> balanced_weights(const std::vector<double>& counts, const std::vector<std::string>& names) {
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  std::vector<double> weights;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) {
      throw core::Error(core::ExitCode::input,
                        "[task] class_weights = \"balanced\": no training sequence has the label \"" + names[i] +
                            "\". Give a list of weights, one for each label.");
    }
    weights.push_back(all / (static_cast<double>(counts.size()) * counts[i]));
  }
  return weights;
}

std::vector<float> normalized_weights(const config::WordOrNumbers& given, std::span<const std::int32_t> labels,
                                      const std::vector<std::string>& names) {
  if (given.word.empty() && given.numbers.size() != names.size()) {
    throw core::Error(
        core::ExitCode::input,
        "[task] class_weights has " + core::counted(static_cast<std::int64_t>(given.numbers.size()), "number") +
            ", but the training shards have " + core::counted(static_cast<std::int64_t>(names.size()), "label") + ": " +
            core::listed(names, "and") + ". Give one weight for each, in this order.");
  }
  const std::vector<double> counts = class_counts(labels, names.size());
  const std::vector<double> weights = given.word.empty() ? given.numbers : balanced_weights(counts, names);
  const double all = std::accumulate(counts.begin(), counts.end(), 0.0);
  const double mean = std::inner_product(counts.begin(), counts.end(), weights.begin(), 0.0) / all;
  if (!(mean > 0)) {
    throw core::Error(core::ExitCode::input,
                      "[task] class_weights: the weights of all training sequences are 0. Give a "
                      "label that occurs in the training data a weight above 0.");
  }
  std::vector<float> normalized;
  for (const double weight : weights) normalized.push_back(static_cast<float>(weight / mean));
  return normalized;
}

}  // namespace

ClassificationSettings classification_settings(const config::Task& task) {
  return {.class_weights = task.list(tasks::class_weights_key),
          .label_smoothing = task.number(tasks::label_smoothing_key),
          .focal_gamma = task.number(tasks::focal_gamma_key)};
}

train::LossOptions training_loss(const ClassificationSettings& settings, std::span<const std::int32_t> labels,
                                 const std::vector<std::string>& label_names) {
  train::LossOptions loss{.label_smoothing = static_cast<float>(settings.label_smoothing),
                          .focal_gamma = static_cast<float>(settings.focal_gamma)};
  const config::WordOrNumbers& weights = settings.class_weights;
  // Planned data has no labels: its losses are not computed.
  if (weights.has_value() && !labels.empty()) loss.class_weights = normalized_weights(weights, labels, label_names);
  return loss;
}

std::string training_loss_text(const train::LossOptions& loss, const std::vector<std::string>& label_names) {
  std::string text;
  for (std::size_t i = 0; i < loss.class_weights.size() && i < max_named_weights; ++i) {
    text +=
        (i == 0 ? "; class weights: " : ", ") + label_names.at(i) + ' ' + core::format_number(loss.class_weights[i]);
  }
  if (loss.class_weights.size() > max_named_weights) text += ", …";
  if (loss.label_smoothing > 0) text += "; label smoothing " + core::format_number(loss.label_smoothing);
  if (loss.focal_gamma > 0) text += "; focal gamma " + core::format_number(loss.focal_gamma);
  return text.empty() ? text : "cross entropy" + text;
}

Objective classification() {
  return {.task = tasks::find("classification"),
          .head = layers::sequence_head(layers::cross_entropy_loss),
          .predict = predict_classes,
          .distillation = {layers::soft_class_loss, {"kl", "mse_logits"}},
          .loss_options =
              [](const RunFacts& run) {
                const auto labels = run.reader.planned() ? std::span<const std::int32_t>() : run.reader.classes();
                return training_loss(classification_settings(run.task), labels, run.label_names);
              },
          .training_lines = [](const TrainingFacts& training) -> Lines {
            return {{"loss", training_loss_text(training.loss, training.label_names)}};
          }};
}

}  // namespace bert_hpc::objectives
