#include "bert_hpc/io/checksummed_file.hpp"

#include <sys/stat.h>
#include <zlib.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

constexpr std::size_t read_block = std::size_t{4} << 20;
using SealBlock = std::array<char, seal_bytes>;

struct Tail {
  long long begin = 0;  // 0: none
  unsigned checksum = 0;
};

/// The lines before that of the tail.
std::string first_lines(const std::string& kind, std::int64_t bytes, std::uint32_t checksum) {
  char hexadecimal[9];
  std::snprintf(hexadecimal, sizeof hexadecimal, "%08x", static_cast<unsigned>(checksum));
  return "bert_hpc " + kind + " 1\nbytes " + std::to_string(bytes) + "\ncrc32 " + hexadecimal + '\n';
}

SealBlock make_block(const std::string& lines, const Tail& tail) {
  SealBlock block{};
  std::snprintf(block.data(), block.size(), "%s", lines.c_str());
  if (tail.begin > 0) {
    std::snprintf(block.data() + lines.size(), block.size() - lines.size(), "tail %lld crc32 %08x\n", tail.begin,
                  tail.checksum);
  }
  return block;
}

struct Body {
  std::int64_t bytes = 0;
  std::uint32_t checksum = 0;
};

/// Size of the bytes from the current position, and checksum of `before` and these; nullopt with errno set if reading
/// fails.
std::optional<Body> read_body(const Descriptor& file, const std::string& before = {}) {
  Body body;
  uLong checksum = crc32_z(0, reinterpret_cast<const unsigned char*>(before.data()), before.size());
  const bool read = file.read_blocks(read_block, [&](const char* block, std::size_t size) {
    checksum = crc32_z(checksum, reinterpret_cast<const unsigned char*>(block), size);
    body.bytes += static_cast<std::int64_t>(size);
  });
  if (!read) return std::nullopt;
  body.checksum = static_cast<std::uint32_t>(checksum);
  return body;
}

/// The same of the bytes from `begin` on.
std::optional<Body> read_from(const Descriptor& file, std::int64_t begin, const std::string& before = {}) {
  if (::lseek(file.get(), begin, SEEK_SET) < 0) return std::nullopt;
  return read_body(file, before);
}

/// Classifies a file whose first bytes are not a block of this kind.
FileCheck judge_foreign(const SealBlock& block, std::size_t bytes, const std::string& kind) {
  const std::string start(block.data(), std::min<std::size_t>(bytes, 64));
  if (start.compare(0, 4, "\x89HDF") == 0) {
    return {FileState::foreign, "it is an HDF5 file that bert_hpc did not write"};
  }
  const std::string ours = "bert_hpc ";
  const std::size_t end = start.find('\n');
  if (start.compare(0, ours.size(), ours) == 0 && end != std::string::npos) {
    const std::string found = start.substr(ours.size(), end - ours.size());
    for (const char c : found) {
      if (c < ' ' || c > '~') return {FileState::damaged, "its header is damaged"};
    }
    return {FileState::foreign, "it is a bert_hpc '" + found + "' file, needed is '" + kind + " 1'"};
  }
  if (start.find_first_not_of('\0') == std::string::npos) {
    return {FileState::truncated, "its header is missing: the writer did not finish"};
  }
  const char* const origin = kind == "shard" ? ", which bert_hpc_prep makes of text files" : "";
  return {FileState::foreign, "it is not a bert_hpc " + kind + origin};
}

FileCheck judge(const Descriptor& file, const std::string& kind, SealPart part) {
  SealBlock block{};
  const ssize_t got = file.read_some(block.data(), block.size());
  if (got < 0) return {FileState::damaged, std::string("it cannot be read: ") + std::strerror(errno)};
  if (got == 0) return {FileState::truncated, "it is empty"};
  const auto head = static_cast<std::size_t>(got);
  const std::string first_line = "bert_hpc " + kind + " 1\n";
  const std::size_t common = std::min(head, first_line.size());
  if (std::memcmp(block.data(), first_line.data(), common) != 0) return judge_foreign(block, head, kind);
  if (head < block.size()) return {FileState::truncated, "it is truncated: it ends inside its header"};

  long long bytes = 0;
  unsigned checksum = 0;
  Tail tail;
  const char* rest = block.data() + first_line.size();
  const int found = block.back() != '\0' ? 0
                                         : std::sscanf(rest, "bytes %lld\ncrc32 %8x\ntail %lld crc32 %8x\n", &bytes,
                                                       &checksum, &tail.begin, &tail.checksum);
  const bool has_tail = found == 4 && tail.begin >= seal_bytes && tail.begin <= bytes;
  const std::string lines = first_lines(kind, bytes, checksum);
  if ((found != 2 && !has_tail) || block != make_block(lines, tail)) {
    return {FileState::damaged, "its header is damaged"};
  }
  struct stat status {};
  if (fstat(file.get(), &status) != 0) return {FileState::damaged, std::strerror(errno)};
  if (status.st_size < bytes) {
    return {FileState::truncated,
            "it is truncated: " + std::to_string(status.st_size) + " of " + std::to_string(bytes) + " bytes are there"};
  }
  const bool only_tail = part == SealPart::tail && has_tail;
  const std::int64_t begin = only_tail ? tail.begin : seal_bytes;
  const std::optional<Body> body = read_from(file, begin, only_tail ? lines : std::string());
  if (!body) return {FileState::damaged, std::string("it cannot be read: ") + std::strerror(errno)};
  if (body->bytes + begin != bytes || body->checksum != (only_tail ? tail.checksum : checksum)) {
    return {FileState::damaged, "it is damaged: its content does not match its checksum"};
  }
  return {};
}

}  // namespace

void seal(const std::string& path, const std::string& kind, core::ExitCode code, std::int64_t tail) {
  const Descriptor file(path, O_RDWR);
  if (!file.valid()) fail_with_errno(code, "open", path);
  const std::optional<Body> body = read_from(file, seal_bytes);
  if (!body) fail_with_errno(code, "read", path);
  const std::string lines = first_lines(kind, body->bytes + seal_bytes, body->checksum);
  const std::optional<Body> end = tail > 0 ? read_from(file, tail, lines) : Body();
  if (!end) fail_with_errno(code, "read", path);
  const SealBlock block = make_block(lines, {tail, end->checksum});
  if (::lseek(file.get(), 0, SEEK_SET) < 0 || !file.write_all(block.data(), block.size())) {
    fail_with_errno(code, "write", path);
  }
}

FileCheck check_seal(const std::string& path, const std::string& kind, SealPart part) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return {FileState::missing, "there is no such file"};
    return {FileState::missing, std::strerror(errno)};
  }
  if (!S_ISREG(status.st_mode)) return {FileState::foreign, "it is not a regular file"};
  const Descriptor file(path, O_RDONLY);
  if (!file.valid()) return {FileState::missing, std::string("it cannot be opened: ") + std::strerror(errno)};
  return judge(file, kind, part);
}

std::string seal_text(const std::string& path, core::ExitCode code) {
  const Descriptor file(path, O_RDONLY);
  if (!file.valid()) fail_with_errno(code, "open", path);
  SealBlock block{};
  long long bytes = 0;
  unsigned checksum = 0;
  const ssize_t got = file.read_some(block.data(), block.size());
  if (got != static_cast<ssize_t>(block.size()) || block.back() != '\0' ||
      std::sscanf(block.data(), "bert_hpc %*s 1\nbytes %lld\ncrc32 %8x\n", &bytes, &checksum) != 2) {
    throw core::Error(code, "Cannot use '" + path + "': it is not a bert_hpc file.");
  }
  char text[64];
  std::snprintf(text, sizeof text, "bytes %lld crc32 %08x", bytes, checksum);
  return text;
}

std::uint32_t file_checksum(const std::string& path, core::ExitCode code) {
  const Descriptor file(path, O_RDONLY);
  const std::optional<Body> body = file.valid() ? read_body(file) : std::nullopt;
  if (!body) fail_with_errno(code, "read", path);
  return body->checksum;
}

void verify(const std::string& path, const std::string& kind, core::ExitCode code, SealPart part) {
  const FileCheck check = check_seal(path, kind, part);
  if (check.state == FileState::good) return;
  throw core::Error(code, "Cannot use '" + path + "' as a " + kind + ": " + check.reason + ".");
}

void refuse_link(const std::string& path, core::ExitCode code) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return;
  throw core::Error(code, "Cannot use '" + path +
                              "': it is a symbolic link, and its target may belong to another run. "
                              "Replace the link with the file itself.");
}

}  // namespace bert_hpc::io
