// The loss of a classification's training steps: class weights, label smoothing and focal loss, as the input's [task]
// and the training labels give them. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/train/loss.hpp"

namespace bert_hpc::objectives {

/// [task] of a classification.
struct ClassificationSettings {
  config::WordOrNumbers class_weights{};  ///< unset, a number for each label, or "balanced"
  double label_smoothing = 0, focal_gamma = 0;
};

ClassificationSettings classification_settings(const config::Task& task);

/// `labels`: of the training data (data::ShardReader::classes()). The loss of a step is Σ row losses / sequences of the
/// global batch, so that it does not depend on how ranks and micro-batches divide the batch. The weights are therefore
/// divided by their mean over the training sequences. Throws Error(input) if weights do not fit the labels.
train::LossOptions training_loss(const ClassificationSettings& settings, std::span<const std::int32_t> labels,
                                 const std::vector<std::string>& label_names);

/// "cross entropy; class weights: no 0.6, yes 3; label smoothing 0.1; focal gamma 2"; "" for the plain one.
std::string training_loss_text(const train::LossOptions& loss, const std::vector<std::string>& label_names);

}  // namespace bert_hpc::objectives
