// A file, or what a gzip file holds, read in blocks and handed out as records that end at a line feed. Memory is
// bounded by the longest record, and that by a limit, whatever the file's size.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::prep {

class TextBytes;
class TextDecoder;

/// Longest record: one line, or one table row with its quoted line feeds. Bytes.
inline constexpr std::size_t longest_record = 64 << 20;

/// Whether the line holds nothing but blanks.
inline bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

class LineSource {
 public:
  /// Opens `file`, text in the encoding that its byte order mark names, or else in `encoding` (text_decoder.hpp), and
  /// skips the mark. If its first lines end in CR alone, each CR is read as a line feed. Throws Error(files) if it
  /// cannot be read or is a directory, Error(data) if it has no bytes, is damaged gzip, or is of a known format that is
  /// no text.
  explicit LineSource(const std::string& file, const std::string& encoding = "utf-8");
  ~LineSource();

  /// Bytes not yet consumed, decompressed, as UTF-8, at least `wanted` of them unless the file ends before. Invalidates
  /// earlier views. Throws Error(data) where `wanted` exceeds longest_record.
  std::string_view peek(std::size_t wanted);

  /// Drops `size` bytes from the front, which are `lines` lines.
  void consume(std::size_t size, std::int64_t lines);

  /// The next line without its end (LF or CRLF); false at the end of the file. The view lasts until the next call.
  bool next_line(std::string_view& line);

  /// The next line that is not blank, and its number; false at the end of the file.
  bool next_filled_line(std::string_view& line, std::int64_t& number) {
    do {
      number = line_;
      if (!next_line(line)) return false;
    } while (is_blank(line));
    return true;
  }

  std::int64_t line() const { return line_; }      ///< number of the line that begins at the front, from 1
  std::int64_t offset() const { return offset_; }  ///< bytes of text before the front, a byte order mark among them
  const std::string& file() const { return file_; }

 private:
  void fill();

  std::string file_;
  std::unique_ptr<TextBytes> bytes_;
  std::unique_ptr<TextDecoder> decoder_;  // null for UTF-8
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  bool at_end_ = false;
  bool ends_in_cr_ = false;  // lines
  std::int64_t line_ = 1, offset_ = 0;
};

}  // namespace bert_hpc::prep
