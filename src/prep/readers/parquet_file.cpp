#include "parquet_file.hpp"

#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>

#include "bert_hpc/core/error.hpp"
#include "decompressor.hpp"
#include "file_kind.hpp"

#ifdef BERT_HPC_HAVE_PARQUET
#include <arrow/util/config.h>
#endif

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::string_view magic = "PAR1", encrypted_magic = "PARE";
constexpr std::size_t smallest_file = 12;  // both magics and the size of the metadata

struct Closer {
  void operator()(std::FILE* stream) const { std::fclose(stream); }
};

/// Says what a file is that does not begin as Parquet does: ": is …".
std::string other_kind(std::string_view start) {
  if (start.starts_with(encrypted_magic)) return ": is encrypted; write it without encryption.";
  if (start.starts_with("version https://git-lfs")) {
    return ": is a pointer of Git LFS, not the file itself; fetch the file with git lfs pull.";
  }
  if (is_gzip(start) || is_zstd(start))
    return ": is compressed as a whole; decompress it, as Parquet compresses columns.";
  const std::string other = binary_format(start);
  return other.empty() ? ": is not Parquet, which begins with \"PAR1\"; set [source] format to what it is." : other;
}

}  // namespace

std::string parquet_version() {
#ifdef BERT_HPC_HAVE_PARQUET
  return ARROW_VERSION_STRING;
#else
  return {};
#endif
}

void check_parquet_ends(const std::string& file) {
  const std::unique_ptr<std::FILE, Closer> stream(std::fopen(file.c_str(), "rb"));
  if (!stream) throw Error(ExitCode::files, file + ": cannot be opened: " + std::strerror(errno) + ".");
  struct stat status {};
  if (fstat(fileno(stream.get()), &status) != 0) {
    throw Error(ExitCode::files, file + ": cannot be opened: " + std::strerror(errno) + ".");
  }
  if (S_ISDIR(status.st_mode)) {
    throw Error(ExitCode::files, file + ": is a directory; name the files in it, as \"" + file + "/*.parquet\".");
  }
  if (!S_ISREG(status.st_mode)) throw Error(ExitCode::files, file + ": Parquet is read from regular files alone.");
  std::array<char, kind_bytes> start{};
  const std::string_view begin(start.data(), std::fread(start.data(), 1, start.size(), stream.get()));
  if (std::ferror(stream.get()) != 0) {
    throw Error(ExitCode::files, file + ": reading failed: " + std::strerror(errno) + ".");
  }
  if (begin.empty()) throw Error(ExitCode::data, file + ": is empty.");
  if (!begin.starts_with(magic)) throw Error(ExitCode::data, file + other_kind(begin));
  std::array<char, magic.size()> last{};
  std::fseek(stream.get(), -static_cast<long>(last.size()), SEEK_END);
  const std::string_view end(last.data(), std::fread(last.data(), 1, last.size(), stream.get()));
  if (end != magic || static_cast<std::size_t>(status.st_size) < smallest_file) {
    throw Error(ExitCode::data, file + ": is truncated: Parquet ends with \"PAR1\". Copy it again.");
  }
}

}  // namespace bert_hpc::prep
