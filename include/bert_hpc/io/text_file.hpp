// A text file written piece by piece. Bytes go to a staging file, so memory does not grow with the text; close() forces
// it to the disk and renames it, so the final name always holds a complete file.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace bert_hpc::io {

class TextFile {
 public:
  /// Throws Error(files), as do all functions below.
  explicit TextFile(const std::string& path);
  ~TextFile();  ///< without close(), the unfinished file is removed
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;

  void write(std::string_view text);
  void close();

 private:
  struct State;
  void flush();

  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::io
