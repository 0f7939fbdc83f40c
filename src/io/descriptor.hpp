// RAII file descriptor (core/descriptor.hpp) with complete read and write loops. Private to io.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "bert_hpc/core/descriptor.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::io::detail {

class Descriptor : public core::Descriptor {
 public:
  using core::Descriptor::Descriptor;
  Descriptor(const std::string& path, int flags, mode_t mode = 0666)
      : core::Descriptor(opened(path.c_str(), flags | O_CLOEXEC, mode)) {}

  /// Returns false with errno set if something could not be written; part of it may have been.
  bool write_all(const void* data, std::size_t bytes) const {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::write(get(), next, bytes);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      next += written;
      bytes -= static_cast<std::size_t>(written);
    }
    return true;
  }

  /// Returns the bytes read, fewer than requested only at the end of the file; −1 with errno set on failure.
  ssize_t read_some(void* data, std::size_t bytes) const {
    std::size_t total = 0;
    while (total < bytes) {
      const ssize_t got = ::read(get(), static_cast<char*>(data) + total, bytes - total);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -1;
      if (got == 0) break;
      total += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(total);
  }

  /// Calls take(bytes, size) with each block of at most `block_bytes` from the current position to the end of the file,
  /// in order; false with errno set if reading fails. A small file is read in one block of its own size.
  template <class Take>
  bool read_blocks(std::size_t block_bytes, const Take& take) const {
    struct stat status {};
    if (::fstat(get(), &status) != 0) return false;
    // Some files, e.g. in /proc, report size 0 although they have content.
    const std::size_t needed = std::max<std::size_t>(page_bytes, static_cast<std::size_t>(status.st_size) + 1);
    if (S_ISREG(status.st_mode)) block_bytes = std::min(block_bytes, needed);
    const auto block = std::make_unique_for_overwrite<char[]>(block_bytes);
    for (;;) {
      const ssize_t got = read_some(block.get(), block_bytes);
      if (got < 0) return false;
      take(block.get(), static_cast<std::size_t>(got));
      if (got < static_cast<ssize_t>(block_bytes)) return true;
    }
  }

  /// As write_all, at file offset `offset`, without moving the position.
  bool write_all_at(const void* data, std::size_t bytes, std::int64_t offset) const {
    const char* next = static_cast<const char*>(data);
    while (bytes > 0) {
      const ssize_t written = ::pwrite(get(), next, bytes, offset);
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return false;
      next += written;
      offset += written;
      bytes -= static_cast<std::size_t>(written);
    }
    return true;
  }

  /// As read_some, at file offset `offset`, without moving the position.
  ssize_t read_some_at(void* data, std::size_t bytes, std::int64_t offset) const {
    std::size_t total = 0;
    while (total < bytes) {
      const ssize_t got =
          ::pread(get(), static_cast<char*>(data) + total, bytes - total, offset + static_cast<std::int64_t>(total));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return -1;
      if (got == 0) break;
      total += static_cast<std::size_t>(got);
    }
    return static_cast<ssize_t>(total);
  }

  /// Closes the file and reports errors that some network file systems delay until then.
  bool close() {
    const int number = release();
    return number < 0 || ::close(number) == 0 || errno == EINTR;
  }

 private:
  static constexpr std::size_t page_bytes = 4096;

  static int opened(const char* path, int flags, mode_t mode) {
    int number = -1;
    do {
      number = ::open(path, flags, mode);
    } while (number < 0 && errno == EINTR);
    return number;
  }
};

/// Throws "Cannot {doing} 'path': {system's reason}."
[[noreturn]] inline void fail_with_errno(core::ExitCode code, const std::string& doing, const std::string& path) {
  throw core::Error(code, "Cannot " + doing + " '" + path + "': " + std::strerror(errno) + ".");
}

}  // namespace bert_hpc::io::detail
