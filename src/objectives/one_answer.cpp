#include "bert_hpc/objectives/one_answer.hpp"

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/objectives/regression.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::objectives {
namespace {

bool is_class(const metrics::OneAnswer& answer) {
  return answer.label_classes > 0;
}

/// What was found, as a sentence.
std::string finding(const std::string& split, const metrics::OneAnswer& answer,
                    const std::vector<std::string>& label_names, const std::string& task) {
  const bool of_words = tasks::named(task).has_words();
  const std::string samples = core::counted(answer.samples, of_words ? "word" : "sequence");
  const auto value = [](double x) { return core::format_number(x); };
  if (answer.answerable > 0) {
    return split + ": the model answers none of the " + core::counted(answer.samples, "question") + ", but " +
           core::with_commas(answer.answerable) + " have an answer; exact and f1 count the others alone.";
  }
  if (!is_class(answer)) {
    return split + ": the predictions for all " + samples + " are nearly one value, " + value(answer.value) + " ± " +
           value(answer.spread) + ", but the labels are " + value(answer.label_mean) + " ± " +
           value(answer.label_spread) + ".";
  }
  const auto number = static_cast<std::size_t>(answer.value);
  const std::string name = number < label_names.size() ? label_names[number] : std::to_string(number);
  return split + ": the model predicts the class \"" + core::printable(name, 60) + "\" for all " + samples +
         ", but the labels have " + core::counted(answer.label_classes, "class", "classes") + ".";
}

}  // namespace

std::string one_answer_in_training(const std::string& split, const metrics::OneAnswer& answer,
                                   const std::vector<std::string>& label_names, const config::Config& input,
                                   std::int64_t steps) {
  std::string text = finding(split, answer, label_names, input.task.name) + " Likely causes: too few steps (" +
                     core::with_commas(steps) +
                     " so far; more schedule.epochs or schedule.steps), or a learning rate "
                     "that is too large or too small (optimizer.learning_rate = " +
                     core::format_number(input.optimizer.learning_rate.value_or(0.0)) +
                     "; try a third and three times as much)";
  if (is_class(answer)) return text + ", or one class that makes up nearly all of the data.";
  if (answer.answerable > 0) return text + ", or [task] null_threshold is too low.";
  const RegressionSettings settings = regression_settings(input.task);
  if (settings.standardize || settings.range.has_value()) return text + ", or labels that do not depend on the text.";
  return text + ", or the labels' scale: set task.standardize = true.";
}

std::string one_answer_in_evaluation(const std::string& split, const metrics::OneAnswer& answer,
                                     const std::vector<std::string>& label_names, const std::string& task) {
  return finding(split, answer, label_names, task) +
         " Likely causes: the model was trained for too few steps, or with a " +
         "learning rate that was too large or too small, or on texts and labels of another kind" +
         (answer.answerable > 0 ? "."
          : is_class(answer)    ? ", or on data that one class makes up nearly all of."
                                : " or scale.");
}

}  // namespace bert_hpc::objectives
