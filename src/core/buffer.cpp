#include "bert_hpc/core/buffer.hpp"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

}  // namespace

void* allocate_device_memory(std::size_t bytes) {
  if (bytes == 0) return nullptr;
  const std::size_t alignment = bytes >= huge_page ? huge_page : 64;
  const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  void* pointer = rounded >= bytes ? std::aligned_alloc(alignment, rounded) : nullptr;
  if (pointer == nullptr) {
    throw Error(ExitCode::internal, "out of memory: " + std::to_string(bytes >> 20) +
                                        " MiB could not be allocated; use a smaller batch.micro_tokens, a smaller "
                                        "model, or more memory per rank.");
  }
  if (alignment == huge_page) madvise(pointer, rounded, MADV_HUGEPAGE);
  std::memset(pointer, 0, rounded);
  return pointer;
}

void free_device_memory(void* pointer, std::size_t) noexcept {
  std::free(pointer);
}

}  // namespace bert_hpc::core
