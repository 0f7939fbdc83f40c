#include "app/engine/teacher_scores.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <span>

#include "app/engine/teacher.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/predictions.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/objectives/output_rules.hpp"
#include "bert_hpc/objectives/prediction_files.hpp"
#include "bert_hpc/ops/distillation.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

namespace {

/// Names of the columns that hold outputs, the first that the file has.
constexpr std::array output_columns = {"logits", "prediction"};

std::string begin_of(const std::string& path) {
  return "[distill] teacher_scores = \"" + path + "\" ";
}

/// Throws Error(input) for losses and keys that need a model.
void require_scores_suffice(const config::Config& input) {
  const auto needs_model = [](const std::string& what) {
    throw Error(ExitCode::input, "[distill] " + what +
                                     " needs the teacher itself, and teacher_scores holds its outputs only: "
                                     "name its folder as teacher, or remove this.");
  };
  for (const char* word : {config::hidden_squares_word, config::hidden_cosine_word, config::attention_squares_word}) {
    if (input.distills_by(word)) needs_model("losses = \"" + std::string(word) + '"');
  }
  if (objectives::of(input).task->rows == tasks::LogitPositions::first_tokens) return;
  throw Error(ExitCode::input, "[distill] teacher_scores is not for the task \"" + input.task.name +
                                   "\", whose predictions have no outputs of each sequence: name the teacher's folder "
                                   "as teacher.");
}

std::string column_of(const io::PredictionsReader& file) {
  for (const char* column : output_columns) {
    if (file.has(column)) return column;
  }
  throw Error(ExitCode::data,
              begin_of(file.path()) + "has no column \"logits\" or \"prediction\": write it with mode \"predict\".");
}

}  // namespace

ScoresPlan plan_scores(const config::Config& input, const model::ModelConfig& student,
                       const data::ShardReader& reader) {
  const std::string& path = *input.distill.teacher_scores;
  require_scores_suffice(input);
  const io::PredictionsReader file(path);
  ScoresPlan plan{
      .path = path, .samples = reader.samples(), .outputs = std::max<std::int64_t>(1, student.num_labels())};
  const auto refuse = [&path](const std::string& what) { throw Error(ExitCode::data, begin_of(path) + what); };
  if (file.info().task != input.task.name) {
    refuse("has predictions of the task \"" + core::printable(file.info().task, 60) + "\" and this training is of \"" +
           input.task.name + "\".");
  }
  if (objectives::of(input).task->has_label_names()) {
    plan.classifier = teacher_use(input, file.info().label_names, student.label_names);
  }
  if (file.columns(column_of(file)) != plan.outputs) {
    refuse("has " + core::counted(file.columns(column_of(file)), "output") + " of each sequence and the student " +
           std::to_string(plan.outputs) + '.');
  }
  if (reader.planned()) return plan;
  if (file.attribute(objectives::data_hash_attribute) != core::hash_of_lines(reader.seals())) {
    refuse(
        "has predictions of other shards than [data] train, or of these in another order: run mode \"predict\" with "
        "[data] test = the training shards.");
  }
  if (file.has_windows()) {
    refuse(
        "has predictions of rows that were cut into windows, and a training needs those of each window: name the "
        "teacher's folder as teacher, or prepare the text without windows.");
  }
  if (file.rows() != plan.samples) {
    refuse("has " + core::counted(file.rows(), "prediction") + " and the shards " +
           core::counted(plan.samples, "sequence") + ": write it again.");
  }
  return plan;
}

std::pair<std::string, std::string> scores_line(const config::Config& input, const ScoresPlan& plan) {
  return {"teacher",
          plan.path + ": stored outputs of " + core::counted(plan.samples, "sequence") + "; " + loss_text(input)};
}

/// Rows of file and reader are matched by the rows of the source that both name.
std::vector<float> read_scores(const ScoresPlan& plan, const data::ShardReader& reader,
                               const data::LabelScales& scales) {
  const io::PredictionsReader file(plan.path);
  const std::vector<float> stored = file.read(column_of(file));
  const std::vector<std::int64_t> there = file.source_index();
  const std::span<const std::int64_t> here = reader.source_index();
  const auto by_source = [](std::span<const std::int64_t> source) {
    std::vector<std::size_t> order(source.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return source[a] < source[b]; });
    return order;
  };
  const std::vector<std::size_t> rows = by_source(there), samples = by_source(here);
  const auto outputs = static_cast<std::size_t>(plan.outputs);
  core::require(rows.size() == samples.size() && stored.size() == rows.size() * outputs,
                "stored scores: the file has changed since the run began");
  std::vector<float> scores(stored.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (there[rows[i]] != here[samples[i]] || (i > 0 && there[rows[i]] == there[rows[i - 1]])) {
      throw Error(ExitCode::data, begin_of(plan.path) +
                                      "has predictions of other rows of the text than the shards: "
                                      "write it again.");
    }
    for (std::size_t j = 0; j < outputs; ++j) {
      const std::size_t column = plan.classifier.rows.empty() ? j : static_cast<std::size_t>(plan.classifier.rows[j]);
      float score = stored[rows[i] * outputs + column];
      if (!scales.empty()) score = scales[j].standardized(score);
      if (data::is_bounded(scales)) score = static_cast<float>(objectives::output_of(score));
      if (!std::isfinite(score)) {
        throw Error(ExitCode::data, begin_of(plan.path) + "has a prediction of row " + std::to_string(there[rows[i]]) +
                                        " that is not a finite output" +
                                        (data::is_bounded(scales) ? ", as it is an end of [task] range." : "."));
      }
      scores[samples[i] * outputs + j] = score;
    }
  }
  return scores;
}

TeacherScores::TeacherScores(const ScoresPlan& plan, std::int64_t rows, bool holds, bool allocates)
    : samples_(plan.samples), outputs_(plan.outputs), rows_(rows), holds_(holds) {
  if (!allocates || !holds) return;
  scores_ = core::Buffer<float>(samples_ * outputs_);
  of_batch_ = core::Buffer<float>(rows_ * outputs_);
}

void TeacherScores::load(const std::vector<float>& scores) {
  if (!holds_) return;
  core::require(std::ssize(scores) == samples_ * outputs_, "stored scores: one row for each sample");
  core::copy_to_device(scores.data(), scores_.data(), scores.size() * sizeof(float));
}

core::Tensor<float> TeacherScores::outputs(const core::MicroBatch& batch) {
  const core::TokenRows& rows = batch.targets.rows;
  core::require(rows.count <= rows_, "stored scores: more rows than planned");
  const core::Tensor<float> result(of_batch_.data(), rows.count, outputs_);
  ops::outputs_of_samples({scores_.data(), samples_, outputs_}, batch.sample, rows.sequence, result);
  return result;
}

MemoryPlan TeacherScores::memory() const {
  if (!holds_) return {};
  return {{"teacher: stored outputs", (samples_ + rows_) * outputs_ * static_cast<std::int64_t>(sizeof(float))}};
}

}  // namespace bert_hpc::app
