#include "app/report/bytes_read.hpp"

#include <algorithm>

namespace bert_hpc::app {

std::vector<std::int64_t> bytes_of_nodes(std::span<const BytesRead> ranks) {
  std::vector<std::string> hosts;
  std::vector<std::int64_t> bytes;
  for (const BytesRead& rank : ranks) {
    const auto node = static_cast<std::size_t>(std::find(hosts.begin(), hosts.end(), rank.host) - hosts.begin());
    if (node == hosts.size()) {
      hosts.push_back(rank.host);
      bytes.push_back(0);
    }
    bytes[node] += rank.bytes;
  }
  return bytes;
}

}  // namespace bert_hpc::app
