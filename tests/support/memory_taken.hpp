// How much memory something takes at most: measured in a process of its own, whose other memory stays as it is.
#pragma once

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <new>
#include <stdexcept>

namespace bert_hpc::test {

/// By how many bytes the memory in use grew at most while `work` ran, whether it threw or not. Measure before anything
/// alike has run here: memory that was freed is used again and not counted.
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
    } catch (...) {  // the same is asked again by who wants to know
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
