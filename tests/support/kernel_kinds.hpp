// The kinds of kernels that a test of all kinds runs with.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

namespace bert_hpc::test {

/// `all`, or in the entries with kernels for 512-bit vectors and tile registers the kinds that these change: others are
/// the same as in the program with the kernels of this processor.
inline std::vector<std::string> kinds_under_test(std::vector<std::string> all) {
  if (std::getenv("BERT_HPC_TEST_WIDE_KERNELS") == nullptr) return all;
  std::erase_if(all, [](const std::string& kind) { return kind != "fused" && kind != "native" && kind != "tuned"; });
  return all;
}

}  // namespace bert_hpc::test
