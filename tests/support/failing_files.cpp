// Put before a program by LD_PRELOAD: a disk that fails. Forcing a file to the disk whose path contains
// $BERT_HPC_FAIL_SYNC fails with EIO; with $BERT_HPC_SHORT_WRITES = N no write takes more than N bytes.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

bool is_to_fail(int file) {
  const char* part = std::getenv("BERT_HPC_FAIL_SYNC");
  if (part == nullptr) return false;
  char link[64], path[4096] = {};
  std::snprintf(link, sizeof link, "/proc/self/fd/%d", file);
  return readlink(link, path, sizeof path - 1) > 0 && std::strstr(path, part) != nullptr;
}

std::size_t taken(std::size_t bytes) {
  const char* most = std::getenv("BERT_HPC_SHORT_WRITES");
  return most == nullptr ? bytes : std::min(bytes, static_cast<std::size_t>(std::atoll(most)));
}

}  // namespace

extern "C" {

int fsync(int file) {
  static auto* const real = next<int(int)>("fsync");
  if (!is_to_fail(file)) return real(file);
  errno = EIO;
  return -1;
}

int fdatasync(int file) {
  static auto* const real = next<int(int)>("fdatasync");
  if (!is_to_fail(file)) return real(file);
  errno = EIO;
  return -1;
}

ssize_t write(int file, const void* data, std::size_t bytes) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t)>("write");
  return real(file, data, taken(bytes));
}

ssize_t pwrite(int file, const void* data, std::size_t bytes, off_t place) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off_t)>("pwrite");
  return real(file, data, taken(bytes), place);
}

ssize_t pwrite64(int file, const void* data, std::size_t bytes, off64_t place) {
  static auto* const real = next<ssize_t(int, const void*, std::size_t, off64_t)>("pwrite64");
  return real(file, data, taken(bytes), place);
}
}
