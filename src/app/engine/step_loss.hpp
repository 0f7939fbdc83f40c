// The loss over a whole step that an input asks for, and what it needs of a training.
#pragma once

#include <optional>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/train/step_loss.hpp"

namespace bert_hpc::app {

/// False if each micro-batch has its own loss, and if the input does not train.
layers::StepLossKind step_loss_of(const config::Config& input);

/// The schedule of [parallel] pipeline_schedule; forwards_first for a loss over a whole step that does not look ahead.
/// Throws Error(input) if the given schedule has another order than that.
train::ScheduleKind schedule_of(const config::Config& input);

/// Settings of a training with a loss over a whole step and at most `rows` sequences of a replica in a step; none on
/// ranks without the head.
std::optional<train::StepLossSettings> step_loss_settings(const config::Config& input, const ModelInstance& model,
                                                          std::int64_t rows);

}  // namespace bert_hpc::app
