// The order of a batch's sequences by length, made where batches are.
#pragma once

#include <cstdint>

#include "bert_hpc/core/micro_batch.hpp"

namespace bert_hpc::core {

/// Fills the arrays of core::LengthOrder for a batch in the host's memory: first, length (sequences), live (an element
/// for each of the longest sequence's tokens). Allocates nothing.
LengthOrder order_by_length(const MicroBatch& batch, std::int32_t* first, std::int32_t* length, std::int32_t* live);

}  // namespace bert_hpc::core
