// Files for the tests of this folder: a scratch folder that goes away, and safetensors files made byte by byte.
#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "support/temporary_directory.hpp"

namespace bert_hpc::test {

/// A temporary directory with paths instead of texts.
class ScratchFolder {
 public:
  std::filesystem::path operator/(const std::string& name) const { return path() / name; }
  std::filesystem::path path() const { return directory_.path(); }

 private:
  test::TemporaryDirectory directory_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  test::write_bytes(path.string(), bytes);
}

inline std::string read_file(const std::filesystem::path& path) {
  return test::file_bytes(path.string());
}

/// The bytes of a safetensors file with this header and data.
inline std::string safetensors_bytes(const std::string& header, const std::string& data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

struct Failure {
  int code = -1;  ///< −1: nothing was thrown
  std::string message;
  bool says(const std::string& text) const { return message.find(text) != std::string::npos; }
};

/// What `action` throws as core::Error; any other exception passes through and fails the test.
template <class Action>
Failure failure_of(Action action) {
  try {
    action();
  } catch (const core::Error& error) {
    return {static_cast<int>(error.code()), error.what()};
  }
  return {};
}

constexpr int files_code = static_cast<int>(core::ExitCode::files);

}  // namespace bert_hpc::test
