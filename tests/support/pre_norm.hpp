// Pre-norm models, which no family makes yet: the plan of a post-norm one whose edges hand on sums.
#pragma once

#include <utility>

#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::tests {

/// The norm behind the embeddings becomes the first sublayer's, that behind each sublayer the next one's, and the last
/// norm that before the head.
inline model::ModelPlan pre_norm(model::ModelPlan plan) {
  plan.embeddings.sum_out = true;
  for (layers::SublayerSettings& sublayer : plan.sublayers) sublayer.sum_in = sublayer.sum_out = true;
  plan.sublayers.back().sum_out = false;  // the head reads the normalized value alone
  return plan;
}

}  // namespace bert_hpc::tests
