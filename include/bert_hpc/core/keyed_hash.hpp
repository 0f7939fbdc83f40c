// SipHash-2-4 (Aumasson, Bernstein, "SipHash: a fast short-input PRF", 2012): a 64-bit code of a short message that
// only holders of the key can make or verify. It authenticates the sender; it does not encrypt.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace bert_hpc::core {

using HashKey = std::array<std::uint64_t, 2>;

std::uint64_t siphash_2_4(const HashKey& key, std::span<const std::byte> message);

}  // namespace bert_hpc::core
