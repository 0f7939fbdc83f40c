// The next of two characters in a text, eight bytes at a time: most of what reading a table does.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace bert_hpc::core {

/// Index of the first of either character from `at` on; the text's size if there is none.
inline std::size_t find_either(std::string_view text, std::size_t at, char a, char b) {
  constexpr std::uint64_t each = 0x0101010101010101u, top = 0x8080808080808080u;
  const std::uint64_t all_a = each * static_cast<unsigned char>(a), all_b = each * static_cast<unsigned char>(b);
  // A byte that is zero borrows, which sets the top bit of it and perhaps of later ones: the lowest set bit is right.
  const auto zeros = [](std::uint64_t x) { return (x - each) & ~x & top; };
  for (std::uint64_t bytes = 0; std::endian::native == std::endian::little && text.size() - at >= sizeof bytes;
       at += sizeof bytes) {
    std::memcpy(&bytes, text.data() + at, sizeof bytes);
    const std::uint64_t found = zeros(bytes ^ all_a) | zeros(bytes ^ all_b);
    if (found != 0) return at + static_cast<std::size_t>(std::countr_zero(found)) / 8;
  }
  while (at < text.size() && text[at] != a && text[at] != b) ++at;
  return at;
}

}  // namespace bert_hpc::core
