// A trie over bytes for the longest match from the left. Its edges (node, byte) → node lie in one open-addressed hash
// table: no pointers, one probe a byte.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace bert_hpc::tokenize {

class ByteTrie {
 public:
  static constexpr std::size_t largest = std::size_t{1} << 24;  ///< nodes that a 32-bit edge key can distinguish

  /// An empty trie with room for texts of so many bytes in all and with nodes 0 … roots − 1 to begin at. bytes + roots
  /// is below `largest`.
  explicit ByteTrie(std::size_t bytes = 0, int roots = 1);

  /// Texts may not hold a zero byte. A text that is inserted twice has its last value. value ≥ 0.
  void insert(std::int32_t root, std::string_view text, std::int32_t value);

  struct Match {
    std::int32_t id;  ///< the text's value; -1: no text matches
    int size;         ///< bytes matched
  };
  /// Longest text that `bytes[0 … size)` begins with.
  Match longest(std::int32_t root, const char* bytes, int size) const {
    Match best{-1, 0};
    std::int32_t node = root;
    for (int i = 0; i < size; ++i) {
      node = child(node, bytes[i]);
      if (node < 0) break;
      if (const std::int32_t id = value_at_[static_cast<std::size_t>(node)]; id >= 0) best = {id, i + 1};
    }
    return best;
  }

  /// Calls take(value, bytes) for each text that `bytes[0 … size)` begins with, from the shortest on.
  template <class Take>
  void each_prefix(std::int32_t root, const char* bytes, int size, const Take& take) const {
    std::int32_t node = root;
    for (int i = 0; i < size; ++i) {
      node = child(node, bytes[i]);
      if (node < 0) return;
      if (const std::int32_t id = value_at_[static_cast<std::size_t>(node)]; id >= 0) take(id, i + 1);
    }
  }

  /// Value of the empty text; -1 if there is none.
  std::int32_t value_at(std::int32_t root) const { return value_at_[static_cast<std::size_t>(root)]; }

 private:
  struct Edge {
    std::uint32_t key;  // node << 8 | byte; 0 is free, as byte 0 is in no text
    std::int32_t node;
  };

  std::size_t slot(std::uint32_t key) const { return (key * std::uint64_t{0x9E3779B97F4A7C15}) >> shift_; }
  std::int32_t child(std::int32_t node, char byte) const {
    const std::uint32_t key = static_cast<std::uint32_t>(node) << 8 | static_cast<unsigned char>(byte);
    for (std::size_t at = slot(key);; at = (at + 1) & (edges_.size() - 1)) {
      if (edges_[at].key == key) return edges_[at].node;
      if (edges_[at].key == 0) return -1;
    }
  }

  std::vector<Edge> edges_;
  std::vector<std::int32_t> value_at_;  // (nodes): value of the text that ends here, or -1
  int shift_ = 0;
};

}  // namespace bert_hpc::tokenize
