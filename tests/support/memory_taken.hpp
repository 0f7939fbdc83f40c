// Measures peak memory use in a separate process, whose other memory stays constant.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <stdexcept>

namespace bert_hpc::test {

/// Maximum growth in bytes of the memory in use while `work` ran, whether it threw or not. Measure before similar work
/// has run in this process: reused freed memory is not counted.
template <class Work>
std::int64_t memory_taken(const Work& work) {
  void* shared = mmap(nullptr, sizeof(std::int64_t), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) throw std::bad_alloc();
  auto* bytes = static_cast<volatile std::int64_t*>(shared);
  const pid_t child = fork();
  if (child == 0) {
    const auto most = [] {
      rusage usage{};
      getrusage(RUSAGE_SELF, &usage);
      return std::int64_t{usage.ru_maxrss} * 1024;
    };
    const std::int64_t before = most();
    try {
      work();
    } catch (...) {  // a caller that needs the exception repeats the work
    }
    *bytes = most() - before;
    _exit(0);
  }
  int status = 1;
  const bool ended = child > 0 && waitpid(child, &status, 0) == child;
  const std::int64_t taken = *bytes;
  munmap(shared, sizeof(std::int64_t));
  if (!ended || status != 0) throw std::runtime_error("the process that was measured failed");
  return taken;
}

}  // namespace bert_hpc::test
