// Files for the tests of this folder: a scratch folder that goes away, and safetensors files made byte by byte.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::tests {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "bert_hpc_model_XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no scratch folder can be made");
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
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

}  // namespace bert_hpc::tests
