// Blocks from the file; the buffer grows only while one record does not fit.
#include "bert_hpc/tokenize/line_source.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::tokenize {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t smallest_block = 4096, largest_block = std::size_t{1} << 20;

}  // namespace

LineSource::LineSource(const std::string& file) : file_(file), stream_(std::fopen(file.c_str(), "rb")) {
  if (!stream_) throw Error(ExitCode::files, file + ": cannot be opened: " + std::strerror(errno) + ".");
  struct stat status {};
  if (fstat(fileno(stream_.get()), &status) == 0 && S_ISDIR(status.st_mode)) {
    throw Error(ExitCode::files, file + ": is a directory; name the files in it.");
  }
  std::setvbuf(stream_.get(), nullptr, _IONBF, 0);  // blocks are read by fill()
  // No larger than a small file needs: one more byte tells its end. What is no regular file says no size.
  const auto needed = S_ISREG(status.st_mode) ? static_cast<std::size_t>(status.st_size) + 1 : largest_block;
  buffer_.resize(std::clamp(needed, smallest_block, largest_block));
  const std::string_view start = peek(3);
  if (start.empty()) throw Error(ExitCode::data, file + ": is empty.");
  if (start.starts_with("\xFF\xFE") || start.starts_with("\xFE\xFF")) {
    throw Error(ExitCode::data, file + ": is UTF-16; convert it first, e.g. with: iconv -f UTF-16 -t UTF-8.");
  }
  if (start.starts_with("\xEF\xBB\xBF")) consume(3, 0);
}

void LineSource::fill() {
  if (begin_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (end_ == buffer_.size()) buffer_.resize(2 * buffer_.size());
  const std::size_t got = std::fread(buffer_.data() + end_, 1, buffer_.size() - end_, stream_.get());
  if (got == 0 && std::ferror(stream_.get())) {
    throw Error(ExitCode::files,
                file_ + ": reading failed near line " + std::to_string(line_) + ": " + std::strerror(errno) + ".");
  }
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

}  // namespace bert_hpc::tokenize
