// Numbers of rows and sequences that ranks find for their own rows and share with all.
#pragma once

#include <cstdint>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::prep {

/// (sequences of all ranks): those of this rank's rows at their positions, zero elsewhere. counts, own (rows):
/// sequences on all ranks and on this one. Pure.
std::vector<std::int32_t> in_order_of_rows(const std::vector<std::int32_t>& counts,
                                           const std::vector<std::int32_t>& own,
                                           const std::vector<std::int32_t>& lengths);

/// Collective: each rank knows the numbers of its rows, zero elsewhere; after this all know all.
void share(comm::Communicator& group, std::vector<std::int32_t>& numbers);

}  // namespace bert_hpc::prep
