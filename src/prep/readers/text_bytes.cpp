// gzip as RFC 1952 has it: one or more members, as several files joined by cat or written by pigz are, and zeros after
// the last as padding.
#include "text_bytes.hpp"

#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t input_bytes = std::size_t{64} << 10;
constexpr std::string_view gzip_magic = "\x1F\x8B";

}  // namespace

struct TextBytes::Inflater {
  Inflater() {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  z_stream stream{};
  bool at_end = false;  // of a member
};

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
  if (std::string_view(input_.data(), end_).starts_with(gzip_magic)) inflater_ = std::make_unique<Inflater>();
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
  if (inflater_) return inflate(out, room);
  if (begin_ == end_) return read_file(out, room);
  const std::size_t size = std::min(room, end_ - begin_);
  std::memcpy(out, input_.data() + begin_, size);
  begin_ += size;
  return size;
}

/// Begins the next member of a gzip file; false if there is none.
bool TextBytes::next_member() {
  for (;;) {
    while (begin_ < end_ && input_[begin_] == '\0') ++begin_;
    if (begin_ < end_) break;
    if (!refill()) return false;
  }
  inflateReset(&inflater_->stream);
  inflater_->at_end = false;
  return true;
}

std::size_t TextBytes::inflate(char* out, std::size_t room) {
  z_stream& stream = inflater_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(out);
  stream.avail_out = static_cast<uInt>(std::min<std::size_t>(room, std::size_t{1} << 30));
  const uInt wanted = stream.avail_out;
  while (stream.avail_out == wanted) {
    if (inflater_->at_end && !next_member()) return 0;
    if (begin_ == end_ && !refill()) {
      throw Error(ExitCode::data, file_ + ": the gzip data ends too early: the file is truncated. Copy it again.");
    }
    stream.next_in = reinterpret_cast<Bytef*>(input_.data() + begin_);
    stream.avail_in = static_cast<uInt>(end_ - begin_);
    const int result = ::inflate(&stream, Z_NO_FLUSH);
    begin_ = end_ - stream.avail_in;
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    inflater_->at_end = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      const std::string why = stream.msg != nullptr ? std::string(" (") + stream.msg + ")" : std::string();
      throw Error(ExitCode::data,
                  file_ + ": the gzip data is damaged" + why + ". Check it with gzip -t, and copy the file again.");
    }
  }
  return wanted - stream.avail_out;
}

}  // namespace bert_hpc::prep
