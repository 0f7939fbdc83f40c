#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

Objective masked_lm() {
  return {.task = tasks::find("masked_lm"), .head = layers::masked_lm_head()};
}

}  // namespace bert_hpc::objectives
