#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

Objective classification() {
  return {.task = tasks::find("classification"),
          .head = layers::sequence_head(layers::cross_entropy_loss),
          .predict = predict_classes};
}

}  // namespace bert_hpc::objectives
