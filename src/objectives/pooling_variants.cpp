#include "bert_hpc/objectives/pooling_variants.hpp"

namespace bert_hpc::objectives {
namespace {

Objective with_pooling(Objective objective, ops::Pooling pooling) {
  objective.head.pooling = pooling;
  return objective;
}

}  // namespace

PoolingVariants::PoolingVariants(const Objective& mean)
    : first_tokens_(*mean.task),
      mean_(mean),
      cls_(mean),
      max_(with_pooling(mean, ops::Pooling::max)),
      last_(with_pooling(mean, ops::Pooling::last)) {
  // The encoder's last block computes first tokens alone.
  first_tokens_.rows = tasks::LogitPositions::first_tokens;
  cls_.task = &first_tokens_;
  cls_.head = layers::embedding_head();
  cls_.head.loss = mean.head.loss;
  cls_.head.loss_scratch = mean.head.loss_scratch;
}

const Objective& PoolingVariants::of(const config::Task& task) const {
  if (task.is(tasks::pooling_key, "cls")) return cls_;
  if (task.is(tasks::pooling_key, "max")) return max_;
  return task.is(tasks::pooling_key, "last") ? last_ : mean_;
}

}  // namespace bert_hpc::objectives
