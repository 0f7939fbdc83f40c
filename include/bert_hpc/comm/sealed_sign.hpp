// A sign of life as it travels between ranks: with a code under a key that never leaves the run's ranks, so that others
// on the network can neither make one nor change it, and with a number, so that none counts twice. Whoever can hold
// datagrams back can still silence a rank, and who reads them sees what they say.
#pragma once

#include <cstdint>
#include <type_traits>

#include "bert_hpc/core/keyed_hash.hpp"

namespace bert_hpc::comm {

/// What a rank says of itself.
struct SignOfLife {
  std::int64_t step = 0;   ///< the last one finished
  char section[40] = {};   ///< the part of the program it is in; ends with 0
  std::int64_t ended = 0;  ///< 1: it leaves, and will say no more
  std::int64_t moves = 0;  ///< changes with every section entered or left and every step finished
};

struct SealedSign {
  std::int32_t from = 0, to = 0;  ///< ranks
  std::uint64_t number = 0;       ///< counts what `from` sends, from 1 on
  SignOfLife sign;
  std::uint64_t code = 0;  ///< of all that stands before
};
static_assert(std::has_unique_object_representations_v<SealedSign>, "bytes that are not set would be under the code");

std::uint64_t code_of(const SealedSign& sealed, const core::HashKey& key);

/// Is it of this run, for rank `to`, and newer than what was taken from its sender before (0: nothing yet)?
bool is_genuine(const SealedSign& sealed, const core::HashKey& key, int to, std::uint64_t last_number);

}  // namespace bert_hpc::comm
