// The parts of UTF-8 handling that are not on the tokenizer's fast path.
#include "bert_hpc/tokenize/utf8.hpp"

#include <cstddef>
#include <cstring>

namespace bert_hpc::tokenize {

bool is_valid_utf8(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = p + text.size();
  while (p < end) {
    if (std::uint64_t bytes = 0; end - p >= std::ptrdiff_t{sizeof bytes}) {  // eight characters of ASCII at once
      std::memcpy(&bytes, p, sizeof bytes);
      if ((bytes & 0x8080808080808080u) == 0) {
        p += sizeof bytes;
        continue;
      }
    }
    const unsigned char* const start = p;
    // A genuine U+FFFD takes three bytes and begins with 0xEF; what stands for a malformed part does not decode to it.
    if (decode_utf8(p, end) == replacement_character && !(p - start == 3 && start[0] == 0xEF && start[2] == 0xBD)) {
      return false;
    }
  }
  return true;
}

std::string valid_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string valid;
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = p + text.size();
  while (p < end) {
    char bytes[4];
    const char* const last = encode_utf8(decode_utf8(p, end), bytes);
    valid.append(bytes, static_cast<std::size_t>(last - bytes));
  }
  return valid;
}

std::int64_t count_characters(std::string_view text) {
  const auto* p = reinterpret_cast<const unsigned char*>(text.data());
  const unsigned char* const end = p + text.size();
  std::int64_t count = 0;
  while (p < end) {
    decode_utf8(p, end);
    ++count;
  }
  return count;
}

}  // namespace bert_hpc::tokenize
