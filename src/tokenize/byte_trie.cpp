#include "bert_hpc/tokenize/byte_trie.hpp"

#include <bit>

namespace bert_hpc::tokenize {

ByteTrie::ByteTrie(std::size_t bytes, int roots) : value_at_(static_cast<std::size_t>(roots), -1) {
  const std::size_t capacity = std::bit_ceil(2 * (bytes + static_cast<std::size_t>(roots)) + 16);
  edges_.assign(capacity, Edge{0, 0});
  shift_ = 64 - std::countr_zero(capacity);
}

void ByteTrie::insert(std::int32_t root, std::string_view text, std::int32_t value) {
  std::int32_t node = root;
  for (const char byte : text) {
    std::int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<std::int32_t>(value_at_.size());
      value_at_.push_back(-1);
      const std::uint32_t key = static_cast<std::uint32_t>(node) << 8 | static_cast<unsigned char>(byte);
      std::size_t at = slot(key);
      while (edges_[at].key != 0) at = (at + 1) & (edges_.size() - 1);
      edges_[at] = {key, next};
    }
    node = next;
  }
  value_at_[static_cast<std::size_t>(node)] = value;
}

}  // namespace bert_hpc::tokenize
