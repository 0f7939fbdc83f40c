// Signs of life that strangers make, change, turn round or send again are refused.
#include "bert_hpc/comm/signed_heartbeat.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstring>

namespace bert_hpc::comm {
namespace {

constexpr core::HashKey key = {0x0123456789ABCDEFull, 0xFEDCBA9876543210ull};

SignedHeartbeat signed_heartbeat(std::uint64_t number) {
  SignedHeartbeat heartbeat{.from = 3,
                            .to = 0,
                            .number = number,
                            .state = {.step = 7, .section = "forward", .ended = 0, .moves = 9},
                            .code = 0};
  heartbeat.code = code_of(heartbeat, key);
  return heartbeat;
}

}  // namespace

TEST_CASE("a sign of life is taken once, and by whom it is for") {
  const SignedHeartbeat heartbeat = signed_heartbeat(5);
  CHECK(is_genuine(heartbeat, key, 0, 0));
  CHECK(is_genuine(heartbeat, key, 0, 4));
  CHECK(!is_genuine(heartbeat, key, 0, 5));  // sent again
  CHECK(!is_genuine(heartbeat, key, 0, 6));
  CHECK(!is_genuine(heartbeat, key, 1, 0));
}

TEST_CASE("a sign of life with any other byte, or under another key, is refused") {
  const SignedHeartbeat heartbeat = signed_heartbeat(5);
  for (std::size_t i = 0; i < sizeof heartbeat; ++i) {
    CAPTURE(i);
    unsigned char bytes[sizeof heartbeat];
    std::memcpy(bytes, &heartbeat, sizeof heartbeat);
    bytes[i] ^= 0x40;  // makes the number larger, not smaller
    SignedHeartbeat changed;
    std::memcpy(&changed, bytes, sizeof changed);
    CHECK(!is_genuine(changed, key, changed.to, 0));
  }
  CHECK(!is_genuine(heartbeat, {key[0], key[1] ^ 1}, 0, 0));
  CHECK(!is_genuine(heartbeat, {}, 0, 0));
}

}  // namespace bert_hpc::comm
