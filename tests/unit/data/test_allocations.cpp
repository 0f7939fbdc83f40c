// Counts what this test program takes from the heap. In a file of its own, because a compiler that sees only one half
// of a replaced pair of new and delete warns of a mismatch.
#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <vector>

namespace {
std::atomic<std::int64_t> allocations{0};
}

std::int64_t allocations_so_far();
std::int64_t allocations_so_far() {
  return allocations;
}

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
// std::stable_sort's buffer comes this way; unreplaced it would be freed by another allocator's free.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  try {
    return operator new(bytes);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

TEST_CASE("allocations are counted") {
  const std::int64_t before = allocations_so_far();
  const std::vector<int> memory(100, 3);
  CHECK(memory.size() == 100);
  CHECK(allocations_so_far() > before);
}
