// Numbers of rows and sequences that ranks find for their own rows and share with all.
#pragma once

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/narrow_array.hpp"

namespace bert_hpc::prep {

/// (sequences of all ranks): those of this rank's rows at their positions, zero elsewhere. counts, own (rows):
/// sequences on all ranks and on this one. Pure.
core::NarrowArray in_order_of_rows(const core::NarrowArray& counts, const core::NarrowArray& own,
                                   const core::NarrowArray& lengths);

/// Collective: each rank knows the numbers of its rows, zero elsewhere. Returns those of all.
core::NarrowArray shared(comm::Communicator& group, const core::NarrowArray& numbers);

}  // namespace bert_hpc::prep
