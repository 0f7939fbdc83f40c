// A heartbeat as it travels between ranks: signed with a key that never leaves the run's ranks, so that no other
// program on the network can forge or change one, and numbered, so that none counts twice. An attacker who holds
// datagrams back can still silence a rank; their content is not secret.
#pragma once

#include <cstdint>
#include <type_traits>

#include "bert_hpc/core/keyed_hash.hpp"

namespace bert_hpc::comm {

/// The state that a rank reports.
struct HeartbeatState {
  std::int64_t step = 0;   ///< the last one finished
  char section[40] = {};   ///< the part of the program it is in; ends with 0
  std::int64_t ended = 0;  ///< 1: it leaves and sends no more
  std::int64_t moves = 0;  ///< changes with every section entered or left and every step finished
};

struct SignedHeartbeat {
  std::int32_t from = 0, to = 0;  ///< ranks
  std::uint64_t number = 0;       ///< counts what `from` sends, from 1 on
  HeartbeatState state;
  std::uint64_t code = 0;  ///< of the bytes before it
};
static_assert(std::has_unique_object_representations_v<SignedHeartbeat>,
              "bytes that are not set would be under the code");

std::uint64_t code_of(const SignedHeartbeat& heartbeat, const core::HashKey& key);

/// Whether it belongs to this run and to rank `to`, and is newer than the last one from its sender (0: none yet).
bool is_genuine(const SignedHeartbeat& heartbeat, const core::HashKey& key, int to, std::uint64_t last_number);

}  // namespace bert_hpc::comm
