// What a test program takes from the heap. CMakeLists.txt adds counted_heap.cpp to programs that include this header.
#pragma once

#include <cstdint>

namespace bert_hpc::test {

/// Calls of new by all threads since the program's start.
std::int64_t allocations_so_far();

}  // namespace bert_hpc::test
