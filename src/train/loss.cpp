#include "bert_hpc/train/loss.hpp"

#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::train {

MicroBatchLoss::MicroBatchLoss(const LossOptions& options)
    : class_weights_(std::ssize(options.class_weights)),
      settings_{.classes = {.label_smoothing = options.label_smoothing, .focal_gamma = options.focal_gamma},
                .texts = options.texts} {
  if (options.class_weights.empty()) return;
  core::copy_to_device(options.class_weights.data(), class_weights_.data(),
                       options.class_weights.size() * sizeof(float));
  settings_.classes.class_weights = class_weights_.data();
}

void MicroBatchLoss::begin(const LossStep& step) {
  scale_ = step.scale;
  settings_.sequence_weight = step.sequence_weight;
}

std::span<const ForwardResult> MicroBatchLoss::add(const ForwardResult& result, const layers::StepContext& context) {
  result.stage->loss(context, scale_, result.slot, settings_);
  result_ = result;
  return {&result_, 1};
}

}  // namespace bert_hpc::train
