#include "text_bytes.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "bert_hpc/core/error.hpp"
#include "decompressor.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t input_bytes = std::size_t{64} << 10;

std::unique_ptr<Decompressor> make_decompressor(const std::string& file, std::string_view start) {
  if (is_gzip(start)) return make_gzip_decompressor(file);
  return is_zstd(start) ? make_zstd_decompressor(file) : nullptr;
}

}  // namespace

TextBytes::TextBytes(const std::string& file)
    : file_(file), stream_(std::fopen(file.c_str(), "rb")), input_(input_bytes) {
  if (!stream_) throw Error(ExitCode::files, file + ": cannot be opened: " + std::strerror(errno) + ".");
  struct stat status {};
  if (fstat(fileno(stream_.get()), &status) == 0 && S_ISDIR(status.st_mode)) {
    throw Error(ExitCode::files, file + ": is a directory; name the files in it.");
  }
  if (S_ISREG(status.st_mode)) file_size_ = static_cast<std::int64_t>(status.st_size);
  std::setvbuf(stream_.get(), nullptr, _IONBF, 0);  // blocks are read here
  refill();
  decompressor_ = make_decompressor(file, std::string_view(input_.data(), end_));
}

TextBytes::~TextBytes() = default;

/// Up to `room` bytes as the file has them; 0 at its end only.
std::size_t TextBytes::read_file(char* out, std::size_t room) {
  const std::size_t got = std::fread(out, 1, room, stream_.get());
  if (got == 0 && std::ferror(stream_.get())) {
    throw Error(ExitCode::files, file_ + ": reading failed: " + std::strerror(errno) + ".");
  }
  return got;
}

/// The next block of the file, when all before is read; false at its end.
bool TextBytes::refill() {
  begin_ = 0;
  end_ = read_file(input_.data(), input_.size());
  return end_ > 0;
}

std::size_t TextBytes::read(char* out, std::size_t room) {
  if (decompressor_) return decompress(out, room);
  if (begin_ == end_) return read_file(out, room);
  const std::size_t size = std::min(room, end_ - begin_);
  std::memcpy(out, input_.data() + begin_, size);
  begin_ += size;
  return size;
}

std::size_t TextBytes::decompress(char* out, std::size_t room) {
  std::size_t written = 0;
  while (written == 0) {
    if (begin_ == end_ && !decompressor_->holds_output() && !refill()) {
      if (decompressor_->at_end()) return 0;
      throw Error(ExitCode::data, file_ + ": the " + decompressor_->name() +
                                      " data ends too early: the file is truncated. Copy it again.");
    }
    std::string_view in(input_.data() + begin_, end_ - begin_);
    written = decompressor_->decompress(in, out, room);
    begin_ = end_ - in.size();
  }
  return written;
}

}  // namespace bert_hpc::prep
