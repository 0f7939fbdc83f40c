#include "bert_hpc/train/distillation.hpp"

#include <optional>
#include <utility>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::train {

DistillationLoss::DistillationLoss(const LossOptions& options, const DistillationSettings& settings,
                                   TeacherOutputs teacher)
    : settings_(settings), teacher_(std::move(teacher)), task_loss_(options), soft_losses_(settings.rows) {}

void DistillationLoss::begin(const LossStep& step) {
  scale_ = step.scale;
  LossStep of_task = step;
  of_task.scale = (1.0f - settings_.share) * step.scale;
  task_loss_.begin(of_task);
}

/// The task's loss replaces the student's outputs with their gradient, so the other loss is computed first.
std::span<const ForwardResult> DistillationLoss::add(const ForwardResult& result, const layers::StepContext& context) {
  model::Stage& student = *result.stage;
  const core::Tensor<float> teacher = teacher_(result.micro_batch);
  core::require(teacher.rows <= settings_.rows, "distillation: more rows than planned");
  const std::optional<layers::VocabularyShare> share = student.vocabulary_share(result.slot);
  settings_.loss({.batch = context.batch,
                  .terms = settings_.terms,
                  .student = student.logits(result.slot),
                  .teacher = teacher,
                  .row_losses = soft_losses_.data(),
                  .share = share ? &*share : nullptr});
  const std::span<const ForwardResult> done = task_loss_.add(result, context);
  student.mix_loss(settings_.share, soft_losses_.data(), settings_.share * scale_, teacher, result.slot);
  return done;
}

}  // namespace bert_hpc::train
