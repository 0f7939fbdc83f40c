// A file read in blocks, handed out as records that end at a line feed. Memory is bounded by the longest record, and
// that by a limit, whatever the file's size.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::tokenize {

/// Longest record: one line, or one table row with its quoted line feeds. Bytes.
inline constexpr std::size_t longest_record = 64 << 20;

class LineSource {
 public:
  /// Opens `file` and skips a UTF-8 byte order mark. Throws Error(files) if it cannot be read, Error(data) if it is
  /// UTF-16, a directory, or has no bytes at all.
  explicit LineSource(const std::string& file);

  /// Bytes not yet consumed, at least `wanted` of them unless the file ends before. Invalidates earlier views. Throws
  /// Error(data) where `wanted` exceeds longest_record.
  std::string_view peek(std::size_t wanted);

  /// Drops `size` bytes from the front, which are `lines` lines.
  void consume(std::size_t size, std::int64_t lines);

  /// The next line without its end (LF or CRLF); false at the end of the file. The view lasts until the next call.
  bool next_line(std::string_view& line);

  std::int64_t line() const { return line_; }      ///< number of the line that begins at the front, from 1
  std::int64_t offset() const { return offset_; }  ///< bytes before the front, a byte order mark among them
  const std::string& file() const { return file_; }

 private:
  void fill();

  struct Closer {
    void operator()(std::FILE* stream) const { std::fclose(stream); }
  };
  std::string file_;
  std::unique_ptr<std::FILE, Closer> stream_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
  std::int64_t line_ = 1, offset_ = 0;
};

}  // namespace bert_hpc::tokenize
