#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

Objective regression() {
  return {.task = tasks::find("regression"),
          .head = layers::sequence_head(layers::squared_error_loss),
          .predict = predict_values};
}

}  // namespace bert_hpc::objectives
