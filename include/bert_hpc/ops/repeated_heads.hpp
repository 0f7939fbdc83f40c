// Heads of keys and values that several heads of queries share (Ainslie et al., "GQA: training generalized multi-query
// transformer models from multi-head checkpoints", 2023): each is repeated before attention, and the gradients of the
// repetitions are added up.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops {

/// y = x with each head `times` times. x (rows, heads · head_dim), y (rows, heads · times · head_dim).
void repeat_heads(core::ConstMatrix x, std::int64_t head_dim, std::int64_t times, core::Matrix y);

/// d_x = the sum of the `times` heads of d_y that each of its heads became, added in order in float. Shapes as above.
void sum_repeated_heads(core::ConstMatrix d_y, std::int64_t head_dim, std::int64_t times, core::Matrix d_x);

}  // namespace bert_hpc::ops
