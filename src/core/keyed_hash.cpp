#include "bert_hpc/core/keyed_hash.hpp"

#include <bit>

namespace bert_hpc::core {
namespace {

struct SipState {
  std::uint64_t v0, v1, v2, v3;

  void rounds(int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v2 += v3;
      v1 = std::rotl(v1, 13) ^ v0;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 = std::rotl(v0, 32) + v3;
      v2 += v1;
      v3 = std::rotl(v3, 21) ^ v0;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  }

  void take(std::uint64_t word) {
    v3 ^= word;
    rounds(2);
    v0 ^= word;
  }
};

}  // namespace

std::uint64_t siphash_2_4(const HashKey& key, std::span<const std::byte> message) {
  // The constants are "somepseudorandomlygeneratedbytes".
  SipState state{key[0] ^ 0x736F6D6570736575ull, key[1] ^ 0x646F72616E646F6Dull, key[0] ^ 0x6C7967656E657261ull,
                 key[1] ^ 0x7465646279746573ull};
  std::uint64_t word = 0;  // little-endian, on any machine
  for (std::size_t i = 0; i < message.size(); ++i) {
    word |= std::to_integer<std::uint64_t>(message[i]) << (8 * (i % 8));
    if (i % 8 != 7) continue;
    state.take(word);
    word = 0;
  }
  state.take(word | static_cast<std::uint64_t>(message.size() & 0xFF) << 56);
  state.v2 ^= 0xFF;
  state.rounds(4);
  return state.v0 ^ state.v1 ^ state.v2 ^ state.v3;
}

}  // namespace bert_hpc::core
