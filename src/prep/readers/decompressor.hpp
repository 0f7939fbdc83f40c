// Compressed files as streams of bytes. Internal to the module.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace bert_hpc::prep {

/// Decompresses one file from its begin to its end, block by block.
class Decompressor {
 public:
  virtual ~Decompressor() = default;

  virtual const char* name() const = 0;  ///< of the compression, for messages

  /// Decompresses from the front of `in`, which it removes, to `out`. Returns the bytes written, at most `room`; 0 if
  /// it needs more input. Throws Error(data) if the data is damaged.
  virtual std::size_t decompress(std::string_view& in, char* out, std::size_t room) = 0;

  /// Whether output is left that needs no further input.
  virtual bool holds_output() const = 0;

  /// Whether the file may end behind the input that was removed.
  virtual bool at_end() const = 0;
};

std::unique_ptr<Decompressor> make_gzip_decompressor(const std::string& file);

/// Returns null if this build has no libzstd.
std::unique_ptr<Decompressor> make_zstd_decompressor(const std::string& file);

bool is_gzip(std::string_view start);  ///< Whether a file that begins with `start` is gzip.
bool is_zstd(std::string_view start);  ///< Whether a file that begins with `start` is Zstandard.

/// Version of libzstd; "" if this build has none.
std::string zstd_version();

}  // namespace bert_hpc::prep
