// gzip as RFC 1952 has it: one or more members, as several files joined by cat or written by pigz are, and zeros after
// the last as padding. The only file of the module that includes zlib's header.
#include <zlib.h>

#include <algorithm>
#include <new>

#include "bert_hpc/core/error.hpp"
#include "decompressor.hpp"

namespace bert_hpc::prep {
namespace {

class GzipDecompressor : public Decompressor {
 public:
  explicit GzipDecompressor(const std::string& file) : file_(file) {
    constexpr int gzip_only = 16;
    if (inflateInit2(&stream_, MAX_WBITS + gzip_only) != Z_OK) throw std::bad_alloc();
  }
  ~GzipDecompressor() override { inflateEnd(&stream_); }
  GzipDecompressor(const GzipDecompressor&) = delete;
  GzipDecompressor& operator=(const GzipDecompressor&) = delete;

  const char* name() const override { return "gzip"; }
  bool holds_output() const override { return false; }  // the checksum comes behind all of it
  bool at_end() const override { return at_end_; }

  std::size_t decompress(std::string_view& in, char* out, std::size_t room) override {
    if (at_end_ && !next_member(in)) return 0;
    constexpr std::size_t most = std::size_t{1} << 30;
    const auto wanted = static_cast<uInt>(std::min(room, most));
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uInt>(std::min(in.size(), most));
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = wanted;
    const int result = ::inflate(&stream_, Z_NO_FLUSH);
    in.remove_prefix(std::min(in.size(), most) - stream_.avail_in);
    if (result == Z_MEM_ERROR) throw std::bad_alloc();
    at_end_ = result == Z_STREAM_END;
    if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
      const std::string why = stream_.msg != nullptr ? std::string(" (") + stream_.msg + ")" : std::string();
      throw core::Error(core::ExitCode::data, file_ + ": the gzip data is damaged" + why +
                                                  ". Check it with gzip -t, and copy the file again.");
    }
    return wanted - stream_.avail_out;
  }

 private:
  /// Begins the next member; false if `in` has none.
  bool next_member(std::string_view& in) {
    in.remove_prefix(std::min(in.find_first_not_of('\0'), in.size()));
    if (in.empty()) return false;
    inflateReset(&stream_);
    at_end_ = false;
    return true;
  }

  std::string file_;
  z_stream stream_{};
  bool at_end_ = false;  // of a member
};

}  // namespace

std::unique_ptr<Decompressor> make_gzip_decompressor(const std::string& file) {
  return std::make_unique<GzipDecompressor>(file);
}

bool is_gzip(std::string_view start) {
  return start.starts_with("\x1F\x8B");
}

}  // namespace bert_hpc::prep
