// The folder of the tests' data.
#pragma once

#include <filesystem>

namespace bert_hpc::test {

/// The folder tests of this checkout; of a packed build (tests/gpu.sh), the one that the environment names.
std::filesystem::path tests_directory();

}  // namespace bert_hpc::test
