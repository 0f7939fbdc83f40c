// A library for LD_PRELOAD that counts a program's heap allocations by the library or program whose code made them, and
// writes "COUNT OBJECT" lines to $BERT_HPC_COUNT_ALLOCATIONS.PID when the program ends. Allocations with C++'s operator
// new count under the C++ library. With $BERT_HPC_TRACE_FROM = N, it prints the call stacks of the N-th and the next 20
// allocations to standard error. Requires glibc, whose own names of these functions do the work.
#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace {

// Counts by return address, which identifies the calling code; open addressing, with room for all call sites.
constexpr std::size_t slots = 1 << 16;
std::atomic<std::uintptr_t> addresses[slots];
std::atomic<std::int64_t> counts[slots];
std::atomic<std::int64_t> total{0};
std::int64_t trace_from = -1;
thread_local bool inside = false;  // this file's own allocations are not counted

void trace(std::int64_t number) {
  inside = true;
  void* frames[24];
  const int depth = backtrace(frames, 24);
  dprintf(STDERR_FILENO, "allocation %lld:\n", static_cast<long long>(number));
  backtrace_symbols_fd(frames, depth, STDERR_FILENO);
  inside = false;
}

void note(void* caller) {
  if (inside) return;
  const std::int64_t number = ++total;
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  for (std::size_t i = address * 0x9E3779B97F4A7C15u >> 48;; i = (i + 1) % slots) {
    std::uintptr_t seen = addresses[i];
    if (seen == 0 && addresses[i].compare_exchange_strong(seen, address)) seen = address;
    if (seen != address) continue;
    ++counts[i];
    break;
  }
  if (trace_from >= 0 && number >= trace_from && number < trace_from + 20) trace(number);
}

__attribute__((constructor)) void begin() {
  if (const char* text = std::getenv("BERT_HPC_TRACE_FROM")) trace_from = std::atoll(text);
}

__attribute__((destructor)) void report() {
  const char* prefix = std::getenv("BERT_HPC_COUNT_ALLOCATIONS");
  if (prefix == nullptr) return;
  inside = true;
  std::map<std::string, std::int64_t> by_object;
  for (std::size_t i = 0; i < slots; ++i) {
    if (addresses[i] == 0) continue;
    Dl_info info{};
    const bool known = dladdr(reinterpret_cast<void*>(addresses[i].load()), &info) != 0 && info.dli_fname != nullptr;
    by_object[known ? info.dli_fname : "unknown"] += counts[i];
  }
  std::FILE* file = std::fopen((std::string(prefix) + "." + std::to_string(getpid())).c_str(), "w");
  if (file == nullptr) return;
  for (const auto& [object, count] : by_object) {
    std::fprintf(file, "%lld %s\n", static_cast<long long>(count), object.c_str());
  }
  std::fclose(file);
}

}  // namespace

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

extern "C" {
void* malloc(std::size_t bytes) {
  note(CALLER);
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  note(CALLER);
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, std::size_t bytes) {
  note(CALLER);
  return __libc_realloc(memory, bytes);
}
void* memalign(std::size_t alignment, std::size_t bytes) {
  note(CALLER);
  return __libc_memalign(alignment, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  note(CALLER);
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** memory, std::size_t alignment, std::size_t bytes) {
  note(CALLER);
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}
}
