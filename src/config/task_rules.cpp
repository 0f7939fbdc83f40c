#include "task_rules.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::config {
namespace {

class TaskRules {
 public:
  explicit TaskRules(const Config& config) : config_(config) {}

  std::vector<ConfigProblem> check() {
    check_task();
    return std::move(problems_);
  }

 private:
  bool trains() const { return config_.run.mode == "train"; }

  /// Adds the problem unless the rule holds.
  void rule(bool holds, const std::string& key, const std::string& text, std::vector<std::string> alternatives = {}) {
    if (!holds) problems_.push_back({key, text, std::move(alternatives)});
  }

  void check_task() {
    const tasks::Task* const task = tasks::find(config_.task.name);
    if (task == nullptr) return;
    const auto given = [](const auto& values, const std::string& name) {
      const auto found = values.find(name);
      return found != values.end() && found->second.has_value();
    };
    for (const tasks::SharedKey& shared : tasks::keys()) {
      const std::string name = shared.key.name;
      const bool is_given = given(config_.task.numbers, name) || given(config_.task.switches, name) ||
                            given(config_.task.lists, name) || given(config_.task.words, name);
      rule(!is_given || shared.belongs_to(*task), "task." + name,
           "[task] " + name + " belongs to " + owners_of(shared) + ": remove it, or change the task.");
      if (is_given && shared.belongs_to(*task) && !shared.words.empty()) check_word(*task, name);
      if (is_given && shared.belongs_to(*task)) check_other(*task, name);
    }
    check_clipping();
    check_range();
    check_levels();
    check_threshold();
    check_texts();
    check_class_texts();
    rule(config_.run.mode != "predict" || task->predicts_samples, "run.mode",
         std::string("[run] mode = \"predict\" has nothing to write for the task \"") + task->name +
             "\": use \"evaluate\".");
  }

  static std::string owners_of(const tasks::SharedKey& key) {
    std::vector<std::string> names;
    for (const tasks::Task* task : key.tasks) names.emplace_back(task->name);
    return (names.size() > 1 ? "the tasks " : "the task ") + core::listed(names, "and");
  }

  /// A key of several tasks takes other words for each.
  void check_word(const tasks::Task& task, const std::string& name) {
    const std::vector<std::string> words = std::get<tasks::Words>(task.find_key(name)->usual).names();
    const std::string& given = *config_.task.words.at(name);
    const bool is_own = std::find(words.begin(), words.end(), given) != words.end();
    rule(is_own, "task." + name,
         "[task] " + name + " = \"" + given + "\" is not for the task \"" + task.name + "\", which takes " +
             core::listed(words, "or") + '.');
  }

  /// A list replaces some keys.
  void check_other(const tasks::Task& task, const std::string& name) {
    const std::string other = task.find_key(name)->other;
    rule(!config_.task.list(other).has_value(), "task." + name,
         "[task] " + name + " does not go with " + other + ": remove one of them.", {"task." + other});
  }

  void check_clipping() {
    const WordOrNumbers range = config_.task.list(tasks::clip_predictions_key);
    const std::vector<double>& numbers = range.numbers;
    rule(numbers.empty() || (numbers.size() == 2 && numbers[0] < numbers[1]), "task.clip_predictions",
         "[task] clip_predictions must be two numbers, the smaller one first, as in [1, 9], or \"labels\".");
    rule(range.word.empty() || trains(), "task.clip_predictions",
         "[task] clip_predictions = \"labels\" needs training data, which mode \"" + config_.run.mode +
             "\" does not read: write the range of the training labels as two numbers; the log of the training names "
             "it.");
  }

  void check_range() {
    const WordOrNumbers range = config_.task.list(tasks::range_key);
    rule(range.numbers.empty() || (range.numbers.size() == 2 && range.numbers[0] < range.numbers[1]), "task.range",
         "[task] range must be two numbers, the smaller one first, as in [1, 9], or \"labels\".");
    rule(range.word.empty() || trains(), "task.range",
         "[task] range = \"labels\" needs training data, which mode \"" + config_.run.mode +
             "\" does not read: remove it, as config.json of a model that was trained with a range holds it.");
    rule(!range.has_value() || !config_.task.is(tasks::loss_key, tasks::concordance_loss), "task.loss",
         "[task] loss = \"concordance\" is of predictions without a range: remove loss or range.", {"task.range"});
  }

  /// Embeddings: in-batch negatives, and scores of known range.
  void check_texts() {
    if (config_.task.name != "embedding") return;
    rule(config_.task.list(tasks::range_key).word.empty(), "task.range",
         "[task] range must be two numbers for the task \"embedding\", the smaller one first, as in [0, 5].");
    const auto is_loss = [&](const char* loss) { return config_.task.is(tasks::loss_key, loss); };
    const bool scores_pairs = is_loss(tasks::cosine_similarity_loss), scores_margins = is_loss(tasks::margin_mse_loss);
    const bool has_negatives = !scores_pairs && !scores_margins && !is_loss(tasks::triplet_loss);
    const std::vector<double> dimensions = config_.task.list(tasks::dimensions_key).numbers;
    const auto falls = [&] { return std::ranges::adjacent_find(dimensions, std::less_equal<>()) == dimensions.end(); };
    const auto is_whole = [](double number) { return number == std::floor(number); };
    rule(falls() && std::ranges::all_of(dimensions, is_whole), "task.dimensions",
         "[task] dimensions must be descending numbers of columns, as in [384, 192, 96], or \"all\".");
    const std::string similarity = config_.task.word(tasks::similarity_key);
    const bool is_cosine = similarity == "cosine" || (similarity.empty() && !scores_margins);
    rule(dimensions.empty() || is_cosine, "task.dimensions",
         "[task] dimensions needs similarity = \"cosine\", as the first columns of embeddings have other lengths: set "
         "it, or remove dimensions.",
         {"task.similarity"});
    rule(similarity.empty() || scores_margins || is_loss(tasks::triplet_loss), "task.similarity",
         "[task] similarity is for loss = \"triplet\" and \"margin_mse\"; the other losses compare cosines: remove it.",
         {"task.loss"});
    rule(!config_.task.is_on(tasks::skip_duplicates_key) || has_negatives, "task.skip_duplicates",
         "[task] skip_duplicates is for loss = \"multiple_negatives\", whose negatives are texts of other rows: remove "
         "it.",
         {"task.loss"});
    rule(!config_.task.list(tasks::range_key).has_value() || !scores_margins, "task.range",
         "[task] range does not go with loss = \"margin_mse\", which compares scores as they are: remove it.",
         {"task.loss"});
    rule(!trains() || !has_negatives || config_.batch.global > 1, "batch.global",
         "[batch] global = 1 leaves an anchor without negatives, which are the other rows of its step: increase it.");
  }

  /// Embeddings of texts with classes.
  void check_class_texts() {
    if (config_.task.name != "class_embedding") return;
    const bool has_margin = !config_.task.is(tasks::loss_key, tasks::batch_hard_soft_margin_loss);
    constexpr double farthest = 2;
    rule(!has_margin || config_.task.is(tasks::similarity_key, "euclidean") ||
             config_.task.number(tasks::margin_key) < farthest,
         "task.margin",
         "[task] margin = " + core::format_number(config_.task.number(tasks::margin_key)) +
             " is as large as a cosine distance can be, which is at most 2: set it below, as to 0.3.",
         {"task.similarity"});
    rule(!trains() || config_.batch.global > 2, "batch.global",
         "[batch] global = " + std::to_string(config_.batch.global) +
             " leaves no step with two texts of one class and a text of another: increase it.");
  }

  void check_levels() {
    const WordOrNumbers levels = config_.task.list(tasks::levels_key);
    const std::vector<double>& numbers = levels.numbers;
    const auto ascends = [&] { return std::adjacent_find(numbers.begin(), numbers.end(), std::greater_equal<>()); };
    rule(numbers.empty() || (numbers.size() > 1 && ascends() == numbers.end()), "task.levels",
         "[task] levels must be two or more ascending numbers, as in [1, 2, 3], or \"labels\".");
    rule(levels.word.empty() || trains(), "task.levels",
         "[task] levels = \"labels\" needs training data, which mode \"" + config_.run.mode +
             "\" does not read: write the values of the training labels; the log of the training names them.");
    const std::vector<double> range = config_.task.list(tasks::range_key).numbers;
    const bool outside =
        !numbers.empty() && range.size() == 2 && (numbers.front() < range.front() || numbers.back() > range.back());
    rule(!outside, "task.levels", "[task] levels must lie in [task] range.", {"task.range"});
    const metrics::Metric* const best =
        metrics::find_metric(config_.evaluation.best.value_or(""), {&metrics::value_levels()});
    const bool of_levels = best != nullptr && config_.task.name == "regression";
    rule(!of_levels || levels.has_value(), "evaluation.best",
         "[evaluation] best = \"" + config_.evaluation.best.value_or("") +
             "\" is a metric of levels: set [task] levels, as in levels = \"labels\", or choose another metric.",
         {"task.levels"});
  }

  void check_threshold() {
    const WordOrNumbers threshold = config_.task.list(tasks::threshold_key);
    rule(threshold.numbers.size() < 2, "task.threshold", "[task] threshold must be one number, or \"search\".");
    rule(threshold.word.empty() || (trains() && !config_.data.validation.empty()), "task.threshold",
         "[task] threshold = \"search\" looks for the best one of the validation split in a training: give [data] "
         "validation and mode \"train\", or the number that the training's log names.");
  }

  const Config& config_;
  std::vector<ConfigProblem> problems_;
};

}  // namespace

std::vector<ConfigProblem> task_problems(const Config& config) {
  return TaskRules(config).check();
}

}  // namespace bert_hpc::config
