// 1 − Lin's concordance correlation coefficient between predicted numbers and labels (Lin 1989, doi:10.2307/2532051):
// a loss over all samples of a step, for its means and variances are those of all of them.
#pragma once

#include <cstdint>

#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::ops {

/// predicted (rows, 1), labels (rows). With means m, variances v and the covariance c over all rows, every row's loss
/// is L = 1 − 2 c / (v_predicted + v_labels + (m_predicted − m_labels)²), and 0 if the divisor is 0. For the rows
/// [begin, begin + d_predicted.rows): row_loss[i − begin] = L, and d_predicted.row(i − begin) = scale · the gradient of
/// rows · L. Bits depend on the rows and their order alone. d_predicted has no columns in common with predicted.
void concordance_loss(core::Tensor<const float> predicted, const float* labels, std::int64_t begin, float scale,
                      float* row_loss, core::Tensor<float> d_predicted);

}  // namespace bert_hpc::ops
