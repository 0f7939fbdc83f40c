// The compute side of a task: its head with the loss, and its predictions. A task's objective is one file,
// src/objectives/NAME.cpp, and a line in src/objectives/registry.cpp; its data side is in tasks/task.hpp.
#pragma once

#include <string_view>
#include <vector>

#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/objectives/prediction.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::objectives {

/// A loss over a whole step, by the word for it in [task] loss. The head reads one row of each sequence.
struct NamedStepLoss {
  const char* name;
  layers::StepLossFunction loss;
};

struct Objective {
  const tasks::Task* task = nullptr;
  layers::HeadKind head;
  Predict predict = nullptr;                 ///< of tasks that predict for each sample
  std::vector<NamedStepLoss> step_losses{};  ///< of training steps, in place of the head's
};

/// Of a valid input's task; that of the first task where `name` is none.
const Objective& named(std::string_view name);

}  // namespace bert_hpc::objectives
