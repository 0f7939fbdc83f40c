// Device memory of CPU builds: host memory.
#include "bert_hpc/core/device_memory.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/error.hpp"
#include "device_guard.hpp"

namespace bert_hpc::core {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
#if defined(__SANITIZE_ADDRESS__)
constexpr std::size_t mapped_from = SIZE_MAX;  // the sanitizer checks the bounds of heap memory only
#else
constexpr std::size_t mapped_from = huge_page;
#endif

std::size_t rounded_up(std::size_t bytes, std::size_t multiple) {
  return (bytes + multiple - 1) / multiple * multiple;
}

/// Zeroed pages, touched by the threads that will work on them: each page is near its thread, and all memory of a run
/// is available before it starts. Null if there is not enough memory.
void* map_huge_pages(std::size_t bytes) {
  const std::size_t mapped = bytes + huge_page;  // room to cut out an aligned range
  if (mapped < bytes) return nullptr;
  void* const all = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (all == MAP_FAILED) return nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(all);
  const std::size_t before = rounded_up(address, huge_page) - address;
  auto* const begin = static_cast<char*>(all) + before;
  if (before > 0) munmap(all, before);
  if (before < huge_page) munmap(begin + bytes, huge_page - before);
  madvise(begin, bytes, MADV_HUGEPAGE);
  constexpr std::size_t page_bytes = 4096;  // at most the system's page size
  const auto pages = static_cast<std::int64_t>(bytes / page_bytes);
#pragma omp parallel for schedule(static) if (bytes >= 8 * huge_page)
  for (std::int64_t i = 0; i < pages; ++i) begin[static_cast<std::size_t>(i) * page_bytes] = 0;
  return begin;
}

[[noreturn]] void out_of_memory(std::size_t bytes) {
  throw Error(ExitCode::input, "out of memory: " + std::to_string(bytes >> 20) +
                                   " MiB could not be allocated; use a smaller batch.micro_tokens, a smaller "
                                   "model, or more memory per rank.");
}

}  // namespace

void* allocate_memory(std::size_t bytes, MemoryKind kind) {
  if (bytes == 0) return nullptr;
  if (device_memory_is_guarded()) {
    void* const pointer = guard::allocate(bytes, kind);
    if (pointer == nullptr) out_of_memory(bytes);
    return pointer;
  }
  void* pointer = nullptr;
  if (bytes >= mapped_from) {
    const std::size_t rounded = rounded_up(bytes, huge_page);
    if (rounded >= bytes) pointer = map_huge_pages(rounded);
  } else {
    const std::size_t rounded = rounded_up(bytes, 64);
    pointer = std::aligned_alloc(64, rounded);
    if (pointer != nullptr) std::memset(pointer, 0, rounded);
  }
  if (pointer == nullptr) out_of_memory(bytes);
  return pointer;
}

void free_memory(void* pointer, std::size_t bytes, MemoryKind kind) noexcept {
  if (device_memory_is_guarded()) return guard::free(pointer, bytes, kind);
  if (bytes >= mapped_from) {
    munmap(pointer, rounded_up(bytes, huge_page));
  } else {
    std::free(pointer);
  }
}

void wait_for_kernels() {
  count_call(DeviceCall::wait, "wait_for_kernels");
  guard::end_copies(guard::copies_started());
}

DeviceMark::~DeviceMark() = default;

// The event is the number of copies started so far.
void DeviceMark::set() {
  event_ = reinterpret_cast<void*>(static_cast<std::uintptr_t>(guard::copies_started()));
}

void DeviceMark::wait() const {
  guard::end_copies(reinterpret_cast<std::uintptr_t>(event_));
}

bool is_gpu_build() {
  return false;
}

void* kernel_stream() {
  return nullptr;
}

void set_kernel_stream(void*) {}

bool host_sees_device_memory() {
  return !device_memory_is_guarded();
}

void copy_to_host(const void* device, void* host, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "copy_to_host", copy_work(device, host, bytes));
  count_call(DeviceCall::wait, "copy_to_host");
  require_device_memory(device, "copy_to_host");
  if (device == host || bytes == 0) return;
  std::memcpy(host, transport_address(device), bytes);
  guard::end_copies(guard::copies_started());
}

void copy_to_device(const void* host, void* device, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "copy_to_device", copy_work(host, device, bytes));
  count_call(DeviceCall::wait, "copy_to_device");
  require_device_memory(device, "copy_to_device");
  if (device == host || bytes == 0) return;
  std::memcpy(transport_address(device), host, bytes);
  guard::end_copies(guard::copies_started());
}

void start_copy_to_device(const void* host, void* device, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "start_copy_to_device", copy_work(host, device, bytes));
  require_device_memory(host, "start_copy_to_device");  // pinned: the copy runs asynchronously
  require_device_memory(device, "start_copy_to_device");
  if (device == host || bytes == 0) return;
  std::memcpy(transport_address(device), host, bytes);
  guard::begin_copy(host, bytes);
}

void start_copy_to_host(const void* device, void* host, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "start_copy_to_host", copy_work(device, host, bytes));
  require_device_memory(device, "start_copy_to_host");
  require_device_memory(host, "start_copy_to_host");  // pinned: the copy runs asynchronously
  if (device != host && bytes > 0) std::memcpy(host, transport_address(device), bytes);
}

void copy_on_device(const void* from, void* to, std::size_t bytes) {
  const CallScope call(DeviceCall::copy, "copy_on_device", copy_work(from, to, 2 * bytes));
  require_device_memory(from, "copy_on_device");
  require_device_memory(to, "copy_on_device");
  if (from != to && bytes > 0) std::memmove(transport_address(to), transport_address(from), bytes);
}

void fill_on_device(void* device, unsigned char value, std::size_t bytes) {
  const CallScope call(DeviceCall::fill, "fill_on_device", bytes_work(bytes));
  require_device_memory(device, "fill_on_device");
  if (bytes > 0) std::memset(transport_address(device), value, bytes);
}

}  // namespace bert_hpc::core
