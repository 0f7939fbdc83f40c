#include "bert_hpc/comm/signed_heartbeat.hpp"

#include <cstddef>
#include <span>

namespace bert_hpc::comm {

std::uint64_t code_of(const SignedHeartbeat& heartbeat, const core::HashKey& key) {
  return core::siphash_2_4(key, std::as_bytes(std::span(&heartbeat, 1)).first(offsetof(SignedHeartbeat, code)));
}

bool is_genuine(const SignedHeartbeat& heartbeat, const core::HashKey& key, int to, std::uint64_t last_number) {
  return heartbeat.to == to && heartbeat.number > last_number && heartbeat.code == code_of(heartbeat, key);
}

}  // namespace bert_hpc::comm
