#include "app/engine/model_request.hpp"

#include <algorithm>

#include "bert_hpc/model/make_plan.hpp"

namespace bert_hpc::app {

ModelRequest applied_model(const model::ModelConfig& config, const objectives::Objective& objective,
                           const Precision& precision) {
  const std::int64_t labels = std::max<std::int64_t>(1, config.num_labels());
  return {.config = config,
          .objective = objective,
          .plan = model::make_plan(config, objective.head, labels, precision.storage),
          .precision = precision};
}

}  // namespace bert_hpc::app
