// AsideFile: a file that is written beside its final name and takes that name only when it is complete on disk, so
// that a reader (or a crash at any instant) sees the old file or the new one, never a part.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>

namespace bert_hpc::model {

class AsideFile {
 public:
  /// Creates PATH.partial. All failures are Error(files) with the path and the system's reason.
  explicit AsideFile(std::filesystem::path path);
  ~AsideFile();  ///< removes what was not published
  AsideFile(AsideFile&& other) noexcept;
  AsideFile(const AsideFile&) = delete;
  AsideFile& operator=(const AsideFile&) = delete;
  AsideFile& operator=(AsideFile&&) = delete;

  void write(const void* bytes, std::size_t count);
  void write(std::string_view text) { write(text.data(), text.size()); }
  void finish();   ///< flushes to disk and closes; nothing can be written any more
  void publish();  ///< gives the file its name; call finish() before

 private:
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path path_, partial_;
  int descriptor_ = -1;
  bool pending_ = false;  // the partial file is there
};

/// Makes the names published in `folder` durable.
void flush_folder(const std::filesystem::path& folder);

}  // namespace bert_hpc::model
