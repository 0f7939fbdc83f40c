// The bytes of a text file as a stream, decompressed if the file is gzip or Zstandard (by its first bytes, whatever its
// name). Internal to the module.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace bert_hpc::prep {

class Decompressor;

class TextBytes {
 public:
  /// Opens `file`, which may be a pipe. Throws Error(files) if it cannot be opened or read, or is a directory.
  explicit TextBytes(const std::string& file);
  ~TextBytes();

  /// Up to `room` bytes at `out`; 0 at the end only. Throws Error(files) with the system's reason, Error(data) for
  /// compressed data that is truncated or damaged.
  std::size_t read(char* out, std::size_t room);

  /// Bytes on the disk; nothing is known of what is no regular file: 0.
  std::int64_t file_size() const { return file_size_; }

 private:
  std::size_t read_file(char* out, std::size_t room);
  bool refill();
  std::size_t decompress(char* out, std::size_t room);

  struct Closer {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  std::string file_;
  std::unique_ptr<std::FILE, Closer> stream_;
  std::int64_t file_size_ = 0;
  std::vector<char> input_;                     // as in the file
  std::size_t begin_ = 0, end_ = 0;             // what of it is not yet read
  std::unique_ptr<Decompressor> decompressor_;  // null if the file is not compressed
};

}  // namespace bert_hpc::prep
