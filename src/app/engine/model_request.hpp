// Request for a model: everything that a ModelInstance needs to know of it. A run may request several models, each with
// its own configuration, head and precision; those without a training are only applied, as a teacher beside a student.
#pragma once

#include <optional>
#include <string>

#include "app/engine/precision.hpp"
#include "bert_hpc/model/model_plan.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/train/schedule.hpp"
#include "bert_hpc/train/shard_plan.hpp"

namespace bert_hpc::app {

/// Training of a model: what its instance has beside the values.
struct TrainingRequest {
  train::ScheduleKind schedule = train::ScheduleKind::one_f_one_b;
  bool looks_ahead = false;     ///< train::PipelineSettings
  train::ShardSettings shards;  ///< how replicas share gradients and states; segments and units are not set
};

struct ModelRequest {
  model::ModelConfig config;
  const objectives::Objective& objective;
  model::ModelPlan plan;                      ///< of the configuration and the objective's head
  Precision precision;                        ///< plan's activations have precision.storage
  bool reproducible = false;                  ///< bits do not depend on the layout
  std::string products = "tuned";             ///< kind of ops::make_matrix_product()
  std::string attention = "fused";            ///< kind of ops::make_attention()
  std::optional<TrainingRequest> training{};  ///< none: the model has no gradients, optimizer states and dropout
};

/// A model that is only applied. Throws as model::make_plan().
ModelRequest applied_model(const model::ModelConfig& config, const objectives::Objective& objective,
                           const Precision& precision);

}  // namespace bert_hpc::app
