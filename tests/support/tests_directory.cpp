// Alone knows the path of the checkout, which compiler caches would otherwise see in the options of all sources.
#include "support/tests_directory.hpp"

#include <cstdlib>

namespace bert_hpc::test {

std::filesystem::path tests_directory() {
  const char* const packed = std::getenv("BERT_HPC_TESTS_DIRECTORY");
  return packed != nullptr ? packed : BERT_HPC_TESTS_DIRECTORY;
}

}  // namespace bert_hpc::test
