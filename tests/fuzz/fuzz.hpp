// What the fuzzers share. A reader of hostile input either succeeds or throws core::Error; anything else, any memory or
// undefined behaviour error, and any broken promise (require) is a finding.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "bert_hpc/core/error.hpp"

namespace fuzz {

inline std::string_view text(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// A number that follows from the bytes (FNV-1a).
inline std::uint64_t digest(std::string_view bytes) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : bytes) hash = (hash ^ static_cast<std::uint8_t>(c)) * 1099511628211u;
  return hash;
}

/// Not through core::require, whose exception would count as refused input.
inline void require(bool condition, const char* promise) {
  if (condition) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

/// Runs `read`; true unless it refused its input as it should.
template <class Read>
bool accepts(const Read& read) {
  try {
    read();
    return true;
  } catch (const bert_hpc::core::Error& error) {
    require(error.code() != bert_hpc::core::ExitCode::internal, "bad input is not our own mistake");
    require(*error.what() != '\0', "an error says something");
    return false;
  }
}

/// Bytes as a file in memory, with a path, as long as this lives. The path is no link: HDF5 opens no link to a file
/// without a name.
class File {
 public:
  explicit File(std::string_view bytes) : path_("/dev/shm/bert_hpc_fuzz_XXXXXX") {
    const int descriptor = mkstemp(path_.data());
    require(descriptor >= 0 && write(descriptor, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a file in memory can be had");
    close(descriptor);
  }
  ~File() { unlink(path_.c_str()); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fuzz
