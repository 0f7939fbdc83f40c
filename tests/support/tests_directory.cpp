// The path of the checkout, for this source alone: in the options of all sources, compiler caches would see it.
#include "support/tests_directory.hpp"

#include <cstdlib>

namespace bert_hpc::test {

std::filesystem::path tests_directory() {
  const char* const packed = std::getenv("BERT_HPC_TESTS_DIRECTORY");
  return packed != nullptr ? packed : BERT_HPC_TESTS_DIRECTORY;
}

}  // namespace bert_hpc::test
