// What ranks agree on around a training step with FP8 products: one scale for each operand on all ranks that hold a
// part of it. Maxima over ranks are exact, so that no layout changes a bit.
#pragma once

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/ops/fp8_product.hpp"

namespace bert_hpc::train {

/// Collective over the tensor group, whose ranks hold parts of each weight. Rounds the weights for the step to come.
void begin_fp8_step(ops::Fp8Product& products, comm::Communicator& tensor);

/// Collective over the tensor group, whose ranks hold parts of activations and gradients, and over the data group,
/// whose ranks have computed other samples. A step that was `skipped` leaves no trace.
void end_fp8_step(ops::Fp8Product& products, comm::Communicator& tensor, comm::Communicator& data, bool skipped);

}  // namespace bert_hpc::train
