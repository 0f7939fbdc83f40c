// Zstandard as RFC 8878 has it: one or more frames, as several files joined by cat or written by pzstd are. The only
// file that includes libzstd's headers.
#include "decompressor.hpp"

#ifdef BERT_HPC_HAVE_ZSTD
#include <zstd.h>
#include <zstd_errors.h>

#include <new>

#include "bert_hpc/core/error.hpp"
#endif

namespace bert_hpc::prep {

#ifdef BERT_HPC_HAVE_ZSTD
namespace {

class ZstdDecompressor : public Decompressor {
 public:
  explicit ZstdDecompressor(const std::string& file) : file_(file), stream_(ZSTD_createDStream()) {
    if (!stream_) throw std::bad_alloc();
    // Files written with zstd --long=31 need a window of 2 GiB, of which only as much memory is touched as they fill.
    const ZSTD_bounds window_log = ZSTD_dParam_getBounds(ZSTD_d_windowLogMax);
    ZSTD_DCtx_setParameter(stream_.get(), ZSTD_d_windowLogMax, window_log.upperBound);
  }

  const char* name() const override { return "Zstandard"; }
  bool holds_output() const override { return holds_output_; }
  bool at_end() const override { return at_end_; }

  std::size_t decompress(std::string_view& in, char* out, std::size_t room) override {
    ZSTD_inBuffer input{in.data(), in.size(), 0};
    ZSTD_outBuffer output{out, room, 0};
    const std::size_t result = ZSTD_decompressStream(stream_.get(), &output, &input);
    if (ZSTD_isError(result) != 0) refuse(ZSTD_getErrorCode(result));
    in.remove_prefix(input.pos);
    at_end_ = result == 0;
    holds_output_ = !at_end_ && output.pos == output.size;
    return output.pos;
  }

 private:
  [[noreturn]] void refuse(ZSTD_ErrorCode code) const {
    if (code == ZSTD_error_memory_allocation) throw std::bad_alloc();
    const std::string what = ZSTD_getErrorString(code);
    if (code == ZSTD_error_dictionary_wrong) {
      throw core::Error(core::ExitCode::data, file_ +
                                                  ": is compressed with a dictionary of Zstandard; decompress it "
                                                  "with that (zstd -d -D DICTIONARY FILE).");
    }
    if (code == ZSTD_error_frameParameter_windowTooLarge) {
      throw core::Error(core::ExitCode::data, file_ +
                                                  ": is compressed with a window of more than 2 GiB; compress it "
                                                  "again without zstd's option --long.");
    }
    throw core::Error(core::ExitCode::data, file_ + ": the Zstandard data is damaged (" + what +
                                                "). Check it with zstd -t, and copy the file again.");
  }

  struct Closer {
    void operator()(ZSTD_DStream* stream) const { ZSTD_freeDStream(stream); }
  };
  std::string file_;
  std::unique_ptr<ZSTD_DStream, Closer> stream_;
  bool at_end_ = false;  // of a frame
  bool holds_output_ = false;
};

}  // namespace

std::unique_ptr<Decompressor> make_zstd_decompressor(const std::string& file) {
  return std::make_unique<ZstdDecompressor>(file);
}

std::string zstd_version() {
  return ZSTD_versionString();
}
#else
std::unique_ptr<Decompressor> make_zstd_decompressor(const std::string&) {
  return nullptr;
}

std::string zstd_version() {
  return {};
}
#endif

bool is_zstd(std::string_view start) {
  // A frame, or one to be skipped, with which files of pzstd begin.
  constexpr std::size_t magic_bytes = 4;
  return start.starts_with("\x28\xB5\x2F\xFD") ||
         (start.size() >= magic_bytes && (start[0] & 0xF0) == 0x50 && start.substr(1).starts_with("\x2A\x4D\x18"));
}

}  // namespace bert_hpc::prep
