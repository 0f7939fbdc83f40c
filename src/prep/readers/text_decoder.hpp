// Text in encodings other than UTF-8, as a stream of UTF-8: Windows-1252 by a table, others by the system's iconv.
// Names are read as browsers read them (WHATWG Encoding): latin-1 is Windows-1252, shift_jis Windows-31J, gb2312
// GB18030. Internal to the module.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text_bytes.hpp"

namespace bert_hpc::prep {

/// Whether the name is one of UTF-8. Case, "-", "_" and blanks do not count, here and below.
bool is_utf8(std::string_view encoding);

/// Whether text of this encoding can be read.
bool is_known_encoding(const std::string& encoding);

/// The encoding that a byte order mark at the beginning of a file names; "" if there is none.
std::string marked_encoding(std::string_view start);

/// UTF-16 without a byte order mark, by the zeros of ASCII text; "" for other text.
std::string unmarked_utf16(std::string_view start);

class TextDecoder {
 public:
  /// Decodes `start`, which has been read already, and what follows it in `bytes`, which must outlive this. Throws
  /// Error(data) for an unknown encoding.
  TextDecoder(TextBytes& bytes, const std::string& encoding, std::string_view start);
  ~TextDecoder();

  /// Up to `room` bytes of UTF-8 at `out`; 0 at the end only. A part that is invalid in the encoding becomes the byte
  /// 0xFF, so that it is counted and reported as malformed UTF-8 is.
  std::size_t read(char* out, std::size_t room);

 private:
  struct Converter;

  bool refill();
  void decode_bytes();
  void convert(bool at_end);

  TextBytes& bytes_;
  std::vector<char> input_;
  std::size_t input_size_ = 0;  // bytes that are not decoded yet
  std::vector<char> output_;
  std::size_t begin_ = 0, end_ = 0;       // part of the output that is not read yet
  std::unique_ptr<Converter> converter_;  // null: Windows-1252
};

}  // namespace bert_hpc::prep
