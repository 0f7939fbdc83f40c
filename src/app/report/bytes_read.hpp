// What ranks have read of files, by node.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace bert_hpc::app {

/// What one rank has read.
struct BytesRead {
  std::string host;
  std::int64_t bytes = 0;

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.host, self.bytes);
  }
};

/// (nodes): sums over the ranks of a host, hosts in the order of their first ranks.
std::vector<std::int64_t> bytes_of_nodes(std::span<const BytesRead> ranks);

}  // namespace bert_hpc::app
