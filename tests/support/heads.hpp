// The heads of the tasks, by the names of the tasks.
#pragma once

#include "bert_hpc/layers/heads.hpp"

namespace bert_hpc::test {

inline const layers::HeadKind classification_head = layers::sequence_head(layers::cross_entropy_loss);
inline const layers::HeadKind regression_head = layers::sequence_head(layers::squared_error_loss);
inline const layers::HeadKind masked_lm_head = layers::masked_lm_head();
inline const layers::HeadKind causal_lm_head = layers::causal_lm_head();
inline const layers::HeadKind token_head = layers::token_head();
inline const layers::HeadKind span_head = layers::span_head();

}  // namespace bert_hpc::test
