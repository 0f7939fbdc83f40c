// The variants of an objective whose outputs are pooled embeddings of texts, by [task] pooling.
#pragma once

#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {

class PoolingVariants {
 public:
  /// mean: the objective whose head pools by the mean (layers::token_embedding_head()).
  explicit PoolingVariants(const Objective& mean);
  PoolingVariants(const PoolingVariants&) = delete;
  PoolingVariants& operator=(const PoolingVariants&) = delete;

  /// The variant of the task's pooling; by the mean if it has none.
  const Objective& of(const config::Task& task) const;

 private:
  tasks::Task first_tokens_;  // the task of cls_, whose head reads first tokens alone
  Objective mean_, cls_, max_, last_;
};

}  // namespace bert_hpc::objectives
