// Blocks from the file; the buffer grows only while one record does not fit.
#include "bert_hpc/prep/readers/line_source.hpp"

#include <algorithm>
#include <cstring>

#include "bert_hpc/core/error.hpp"
#include "file_kind.hpp"
#include "text_bytes.hpp"
#include "text_decoder.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t smallest_block = 4096, largest_block = std::size_t{1} << 20;
constexpr std::size_t line_end_bytes = std::size_t{64} << 10;  // without a line feed among them, CR ends lines

}  // namespace

LineSource::LineSource(const std::string& file, const std::string& encoding)
    : file_(file), bytes_(std::make_unique<TextBytes>(file)) {
  // No larger than a small file needs: one more byte reports its end. Only regular files have a size.
  const auto needed = bytes_->file_size() > 0 ? static_cast<std::size_t>(bytes_->file_size()) + 1 : largest_block;
  buffer_.resize(std::clamp(needed, smallest_block, largest_block));
  if (peek(1).empty()) throw Error(ExitCode::data, file + ": is empty.");
  if (const std::string other = binary_format(peek(kind_bytes)); !other.empty())
    throw Error(ExitCode::data, file + other);
  const std::string mark = marked_encoding(peek(4));
  const std::string& used = mark.empty() ? encoding : mark;
  if (const std::string wide = is_utf8(used) ? unmarked_utf16(peek(kind_bytes)) : ""; mark.empty() && !wide.empty()) {
    throw Error(ExitCode::data,
                file + ": is UTF-16 without a byte order mark: set [source] encoding = \"" + wide + "\".");
  }
  if (!is_utf8(used)) {
    decoder_ = std::make_unique<TextDecoder>(*bytes_, used, std::string_view(buffer_.data(), end_));
    end_ = 0;
    at_end_ = false;
  }
  if (peek(3).starts_with("\xEF\xBB\xBF")) consume(3, 0);
  const std::string_view start = peek(line_end_bytes);
  const std::size_t first = start.find_first_of("\r\n");
  const bool is_whole = first != std::string_view::npos && (first + 1 < start.size() || at_end_);
  ends_in_cr_ = is_whole && start.find('\n') == std::string_view::npos;
  if (ends_in_cr_) std::replace(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(end_), '\r', '\n');
}

LineSource::~LineSource() = default;

void LineSource::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  char* const free = buffer_.data() + end_;
  const std::size_t room = buffer_.size() - end_;
  const std::size_t got = decoder_ ? decoder_->read(free, room) : bytes_->read(free, room);
  if (ends_in_cr_) std::replace(free, free + got, '\r', '\n');
  end_ += got;
  at_end_ = got == 0;
}

std::string_view LineSource::peek(std::size_t wanted) {
  if (wanted > longest_record) {
    throw Error(ExitCode::data, file_ + ": the row that begins at line " + std::to_string(line_) +
                                    " is longer than 64 MiB; is a quote never closed? For plain tab-separated text "
                                    "set [source] quotes = false.");
  }
  while (end_ - begin_ < wanted && !at_end_) fill();
  return {buffer_.data() + begin_, end_ - begin_};
}

void LineSource::consume(std::size_t size, std::int64_t lines) {
  begin_ += size;
  line_ += lines;
  offset_ += static_cast<std::int64_t>(size);
}

bool LineSource::next_line(std::string_view& line) {
  std::size_t searched = 0;
  std::string_view text = peek(1);
  if (text.empty()) return false;
  for (;;) {
    const auto* const found =
        static_cast<const char*>(std::memchr(text.data() + searched, '\n', text.size() - searched));
    if (found != nullptr) {
      line = text.substr(0, static_cast<std::size_t>(found - text.data()));
      consume(line.size() + 1, 1);
      break;
    }
    searched = text.size();
    text = peek(searched + 1);
    if (text.size() == searched) {  // the last line has no end
      line = text;
      consume(line.size(), 1);
      break;
    }
  }
  if (line.ends_with('\r')) line.remove_suffix(1);
  return true;
}

}  // namespace bert_hpc::prep
