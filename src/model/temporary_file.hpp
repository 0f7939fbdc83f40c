// TemporaryFile: a file that is written piece by piece beside its final name and takes that name only when it is
// complete on disk (see io/atomic_write.hpp). Several can be finished first and published together.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace bert_hpc::model {

class TemporaryFile {
 public:
  /// Creates PATH.partial. All failures are Error(files) with the path and the system's reason.
  explicit TemporaryFile(std::filesystem::path path);
  ~TemporaryFile();  ///< removes what was not published
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  TemporaryFile& operator=(TemporaryFile&&) = delete;

  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void finish();   ///< flushes to disk and closes; nothing can be written any more
  void publish();  ///< gives the file its name, durably; call finish() before

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool pending_ = false;  // the partial file is there
};

}  // namespace bert_hpc::model
