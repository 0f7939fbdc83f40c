// A task in the program: its head and losses, and what it makes of settings, data and outputs. A task's objective is
// one file, src/objectives/NAME.cpp, with a header if others or tests need its functions, and a line in
// src/objectives/registry.cpp; its description for inputs, data and files is in tasks/task.hpp.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/soft_losses.hpp"
#include "bert_hpc/objectives/output_rules.hpp"
#include "bert_hpc/objectives/prediction.hpp"
#include "bert_hpc/objectives/window_results.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/train/loss.hpp"

namespace bert_hpc::objectives {

/// A loss over a whole step, by the word for it in [task] loss. The head has one row of outputs for each sequence.
struct NamedStepLoss {
  const char* name;
  layers::StepLossKind (*make)(const config::Task&);
};

/// A run, as far as a task's settings refer to it.
struct RunFacts {
  const config::Task& task;
  bool trains;
  const data::ShardReader& reader;                       ///< training data; in other modes the data to evaluate
  const std::vector<std::string>& label_names;           ///< of the outputs
  const std::optional<std::array<double, 2>>& exported;  ///< range of predictions in the model's config.json
};

/// Settings of a training that its log names.
struct TrainingFacts {
  const config::Task& task;
  const OutputRules& rules;
  const train::LossOptions& loss;
  const std::vector<std::string>& label_names;  ///< of the outputs
};

/// Names and texts of lines that describe a run.
using Lines = std::vector<std::pair<std::string, std::string>>;

/// Losses between the outputs of a student and a teacher, by their words in [distill] losses.
struct Distillation {
  layers::SoftLossFunction loss = nullptr;  ///< null: the task has none
  std::vector<std::string> words{};         ///< "kl", "mse_logits", "margin_mse"; the first is the default
};

struct Objective {
  const tasks::Task* task = nullptr;
  layers::HeadKind head;
  Predict predict = nullptr;                 ///< of tasks that predict for each sample
  std::vector<NamedStepLoss> step_losses{};  ///< of training steps, instead of the head's
  Distillation distillation{};
  MakeResults results = row_or_window_results;  ///< what is made of a data set's outputs

  /// The objective with these settings, if its head depends on them; otherwise null.
  const Objective& (*with)(const config::Task&) = nullptr;
  // Functions of settings and data; null if the task has nothing of the kind.
  /// Throws Error(input) and Error(data) if settings and labels do not fit each other.
  OutputRules (*output_rules)(const RunFacts&) = nullptr;
  /// Throws Error(input) if the settings exclude a label of the data.
  void (*check_labels)(const config::Task&, const data::ShardReader&) = nullptr;
  /// Options of the training loss. Throws Error(input) if they do not fit the labels.
  train::LossOptions (*loss_options)(const RunFacts&) = nullptr;
  void (*set_batches)(const config::Task&, data::BatchLoaderOptions&) = nullptr;
  Lines (*training_lines)(const TrainingFacts&) = nullptr;
  /// A warning about the training data; "" if there is none.
  std::string (*training_warning)(const data::ShardReader&) = nullptr;
};

/// Sets the options of batches whose tokens are masked.
void set_masking(const config::Task& task, data::BatchLoaderOptions& options);

/// Objective of a valid input's task; that of the first task if `name` is none.
const Objective& named(std::string_view name);
/// Objective of a run: its task's, or that of embeddings.
const Objective& of(const config::Config& input);

}  // namespace bert_hpc::objectives
