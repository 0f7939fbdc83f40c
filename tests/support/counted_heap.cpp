// Counts what a test program takes from the heap, by replacing new and delete. Nothing else is in this file: a compiler
// that sees only one half of a replaced pair warns of a mismatch.
#include "support/counted_heap.hpp"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::int64_t> allocations{0};
}

std::int64_t bert_hpc::test::allocations_so_far() {
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
// Inlined at -O1, the pair looks like a delete that frees what another new has given.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#pragma GCC diagnostic pop
