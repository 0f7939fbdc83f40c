// The folder of the tests' data.
#pragma once

#include <cstdlib>
#include <filesystem>

namespace bert_hpc::test {

/// The folder tests of this checkout; of a packed build (tests/gpu.sh), the one that the environment names.
inline std::filesystem::path tests_directory() {
  const char* const packed = std::getenv("BERT_HPC_TESTS_DIRECTORY");
  return packed != nullptr ? packed : BERT_HPC_TESTS_DIRECTORY;
}

}  // namespace bert_hpc::test
