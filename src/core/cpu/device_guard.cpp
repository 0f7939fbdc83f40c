#include "device_guard.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

constexpr std::size_t page = 4096;
constexpr std::size_t largest = std::size_t{64} << 30;  // address space, not memory

std::size_t whole_pages(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

/// A range of addresses for allocations, backed by a file that grows when it is touched.
class Range {
 public:
  explicit Range(int protection) : file_(memfd_create("bert_hpc_guard", MFD_CLOEXEC)) {
    require(file_ >= 0 && ftruncate(file_, static_cast<off_t>(largest)) == 0, "no memory file for the guard");
    begin_ = map(protection);
  }

  unsigned char* map(int protection) const {
    void* const begin = mmap(nullptr, largest, protection, MAP_SHARED | MAP_NORESERVE, file_, 0);
    require(begin != MAP_FAILED, "no address range for the guard");
    return static_cast<unsigned char*>(begin);
  }

  void* take(std::size_t bytes) {
    const std::size_t size = whole_pages(bytes);
    if (const auto found = free_.find(size); found != free_.end()) {
      void* const pointer = begin_ + found->second;
      free_.erase(found);
      return pointer;
    }
    if (used_ + size > largest) return nullptr;
    void* const pointer = begin_ + used_;
    used_ += size + page;  // a gap page, so that an overrun is outside every allocation
    return pointer;
  }

  void give_back(void* pointer, std::size_t bytes) {
    const std::size_t size = whole_pages(bytes), offset = static_cast<std::size_t>(offset_of(pointer));
    fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset), static_cast<off_t>(size));
    free_.emplace(size, offset);
  }

  void protect(int protection) {
    if (used_ > 0) mprotect(begin_, used_, protection);
  }

  bool holds(const void* pointer) const {
    const std::ptrdiff_t at = offset_of(pointer);
    return at >= 0 && static_cast<std::size_t>(at) < largest;
  }
  std::ptrdiff_t offset_of(const void* pointer) const { return static_cast<const unsigned char*>(pointer) - begin_; }

 private:
  int file_;
  unsigned char* begin_ = nullptr;
  std::size_t used_ = 0;
  std::multimap<std::size_t, std::size_t> free_;  // size → offset
};

/// Pages that a copy reads.
struct Source {
  unsigned char* begin;
  std::size_t bytes;
  std::uint64_t number;  // of the copy, from 1
};

struct Guard {
  Range device{PROT_NONE}, host{PROT_READ | PROT_WRITE};
  unsigned char* transport = device.map(PROT_READ | PROT_WRITE);
  std::mutex mutex;
  int users = 0;
  std::vector<Source> copies;  // copies that the host has not waited for
  std::uint64_t started = 0;
};

/// One per process, as memory protection is per process.
Guard& guard_of_process() {
  static Guard& guard = *new Guard;  // never destroyed: buffers may outlive all statics
  return guard;
}

bool is_mapped(std::uintptr_t address) {
  unsigned char resident = 0;
  return mincore(reinterpret_cast<void*>(address / page * page), 1, &resident) == 0;
}

}  // namespace

bool device_memory_is_guarded() {
  static const bool guarded = [] {
    const char* const value = std::getenv("BERT_HPC_GUARD_DEVICE_MEMORY");
    return value != nullptr && std::strcmp(value, "1") == 0;
  }();
  return guarded;
}

DeviceAccess::DeviceAccess() {
  if (!device_memory_is_guarded()) return;
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  if (guard.users++ == 0) guard.device.protect(PROT_READ | PROT_WRITE);
}

DeviceAccess::~DeviceAccess() {
  if (!device_memory_is_guarded()) return;
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  if (--guard.users == 0) guard.device.protect(PROT_NONE);
}

void require_device_memory(const void* pointer, const char* what) {
  if (!device_memory_is_guarded() || pointer == nullptr) return;
  const Guard& guard = guard_of_process();
  if (guard.device.holds(pointer) || guard.host.holds(pointer)) return;
  throw Error(ExitCode::internal, std::string(what) + " was handed memory that a device could not reach.");
}

// A kernel body is plain data. A word that is a possible address and leads to mapped memory is very likely a pointer:
// sizes are too small to be addresses, and floating-point numbers too large.
void require_device_operands(const void* body, std::size_t bytes, const char* kernel) {
  if (!device_memory_is_guarded()) return;
  const Guard& guard = guard_of_process();
  for (std::size_t at = 0; at + sizeof(std::uintptr_t) <= bytes; at += sizeof(std::uintptr_t)) {
    std::uintptr_t word = 0;
    std::memcpy(&word, static_cast<const unsigned char*>(body) + at, sizeof word);
    if (word < (std::uintptr_t{1} << 32) || word >= (std::uintptr_t{1} << 47)) continue;
    const void* const pointer = reinterpret_cast<const void*>(word);
    if (guard.device.holds(pointer) || guard.host.holds(pointer) || !is_mapped(word)) continue;
    throw Error(ExitCode::internal, std::string(kernel) + " was handed memory that a device could not reach (word " +
                                        std::to_string(at / sizeof word) + " of its body).");
  }
}

void* transport_address(const void* pointer) {
  void* const same = const_cast<void*>(pointer);
  if (!device_memory_is_guarded()) return same;
  const Guard& guard = guard_of_process();
  return guard.device.holds(pointer) ? guard.transport + guard.device.offset_of(pointer) : same;
}

namespace guard {
namespace {

/// Freeing memory counts as waiting for its copies.
void end_copies_of(Guard& guard, unsigned char* begin, std::size_t bytes) noexcept {
  mprotect(begin, bytes, PROT_READ | PROT_WRITE);
  std::erase_if(guard.copies, [&](const Source& copy) { return copy.begin >= begin && copy.begin < begin + bytes; });
}

}  // namespace

void begin_copy(const void* host, std::size_t bytes) {
  if (!device_memory_is_guarded()) return;
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  ++guard.started;
  if (!guard.host.holds(host)) return;
  auto* const first = static_cast<unsigned char*>(const_cast<void*>(host));
  unsigned char* const begin = first - reinterpret_cast<std::uintptr_t>(first) % page;
  guard.copies.push_back({begin, whole_pages(static_cast<std::size_t>(first - begin) + bytes), guard.started});
  mprotect(begin, guard.copies.back().bytes, PROT_READ);
}

std::uint64_t copies_started() {
  if (!device_memory_is_guarded()) return 0;
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  return guard.started;
}

void end_copies(std::uint64_t count) {
  if (!device_memory_is_guarded()) return;
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  for (const Source& copy : guard.copies) {
    if (copy.number <= count) mprotect(copy.begin, copy.bytes, PROT_READ | PROT_WRITE);
  }
  std::erase_if(guard.copies, [&](const Source& copy) { return copy.number <= count; });
  // If two copies read the same pages, the later one still needs them.
  for (const Source& copy : guard.copies) mprotect(copy.begin, copy.bytes, PROT_READ);
}

void* allocate(std::size_t bytes, MemoryKind kind) {
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  if (kind == MemoryKind::host) return guard.host.take(bytes);
  void* const pointer = guard.device.take(bytes);
  if (guard.users > 0) guard.device.protect(PROT_READ | PROT_WRITE);
  return pointer;
}

void free(void* pointer, std::size_t bytes, MemoryKind kind) noexcept {
  if (pointer == nullptr) return;
  Guard& guard = guard_of_process();
  const std::lock_guard lock(guard.mutex);
  if (kind == MemoryKind::host) end_copies_of(guard, static_cast<unsigned char*>(pointer), whole_pages(bytes));
  (kind == MemoryKind::device ? guard.device : guard.host).give_back(pointer, bytes);
}

}  // namespace guard
}  // namespace bert_hpc::core
