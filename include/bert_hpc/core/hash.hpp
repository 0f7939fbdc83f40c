// FNV-1a (Fowler, Noll, Vo): identifies texts and files; not for security.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::core {

inline constexpr std::uint64_t fnv1a_start = 0xCBF29CE484222325ull;

/// Hash of the bytes. To hash in pieces, pass the hash so far.
constexpr std::uint64_t fnv1a_64(std::string_view bytes, std::uint64_t so_far = fnv1a_start) {
  for (const char byte : bytes) {
    so_far ^= static_cast<unsigned char>(byte);
    so_far *= 0x100000001B3ull;
  }
  return so_far;
}

/// Hash of a sequence's tokens, by which equal sequences are found.
inline std::uint64_t hash_of_ids(std::span<const std::int32_t> ids) {
  return fnv1a_64({reinterpret_cast<const char*>(ids.data()), ids.size_bytes()});
}

/// 16 hexadecimal digits that distinguish lists of lines, such as vocabularies: FNV-1a over each line and a line feed.
std::string hash_of_lines(const std::vector<std::string>& lines);

}  // namespace bert_hpc::core
