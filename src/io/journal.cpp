#include "bert_hpc/io/journal.hpp"
#include "bert_hpc/core/own_file.hpp"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>

#include "bert_hpc/io/atomic_write.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

using detail::Descriptor;
using detail::fail_with_errno;

namespace {

constexpr std::size_t checksum_size = 9;  ///< eight digits and a space
constexpr std::size_t journal_block = std::size_t{1} << 20;

std::uint32_t checksum_of(std::string_view payload) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const unsigned char*>(payload.data()), payload.size()));
}

std::string line_of(std::string_view payload) {
  constexpr char digits[] = "0123456789abcdef";
  const std::uint32_t checksum = checksum_of(payload);
  std::string line;
  line.reserve(payload.size() + checksum_size + 1);
  for (int shift = 28; shift >= 0; shift -= 4) line += digits[(checksum >> shift) & 15u];
  line += ' ';
  line += payload;
  line += '\n';
  return line;
}

bool is_good(std::string_view line) {
  if (line.size() < checksum_size || line[8] != ' ') return false;
  std::uint32_t stated = 0;
  const auto [end, problem] = std::from_chars(line.data(), line.data() + 8, stated, 16);
  return problem == std::errc{} && end == line.data() + 8 && stated == checksum_of(line.substr(checksum_size));
}

}  // namespace

struct Journal::State {
  std::string path;
  Descriptor file;
  std::int64_t bytes = 0;
};

Journal::Journal(std::unique_ptr<State> state) : state_(std::move(state)) {}
Journal::Journal(Journal&&) noexcept = default;
Journal& Journal::operator=(Journal&&) noexcept = default;
Journal::~Journal() = default;

Journal Journal::create(const std::string& path, const std::string& title) {
  if (!Descriptor(core::create_own_file(path)).valid()) fail_with_errno(core::ExitCode::files, "create", path);
  Journal journal = resume(path);
  journal.append(title);
  return journal;
}

Journal Journal::resume(const std::string& path) {
  Journal journal(std::make_unique<State>(State{path, Descriptor(core::open_own_file(path, O_RDWR | O_APPEND))}));
  const Descriptor& file = journal.state_->file;
  std::int64_t& bytes = journal.state_->bytes;
  if (!file.valid()) {
    throw core::Error(core::ExitCode::files, "Cannot open '" + path + "': " + core::why_not_own(errno) + '.');
  }
  bytes = std::max<std::int64_t>(0, ::lseek(file.get(), 0, SEEK_END));
  char last = '\n';
  if (bytes > 0 && file.read_some_at(&last, 1, bytes - 1) < 0) fail_with_errno(core::ExitCode::files, "read", path);
  if (last == '\n') return journal;
  if (!file.write_all("\n", 1)) fail_with_errno(core::ExitCode::files, "write", path);
  ++bytes;
  return journal;
}

void Journal::append(std::string_view payload) {
  core::require(payload.find('\n') == std::string_view::npos, "journal payload with a newline");
  const std::string line = line_of(payload);
  if (!state_->file.write_all(line.data(), line.size())) fail_with_errno(core::ExitCode::files, "write", state_->path);
  state_->bytes += static_cast<std::int64_t>(line.size());
}

std::int64_t Journal::bytes() const {
  return state_->bytes;
}

std::optional<std::uint32_t> Journal::copy(std::int64_t bytes, const std::string& to, Durability durability) const {
  Descriptor copied(core::create_own_file(to));
  if (!copied.valid()) fail_with_errno(core::ExitCode::files, "create", to);
  const auto block = std::make_unique_for_overwrite<unsigned char[]>(journal_block);
  uLong checksum = crc32_z(0, nullptr, 0);
  for (std::int64_t done = 0; done < bytes;) {
    const std::int64_t count = std::min(static_cast<std::int64_t>(journal_block), bytes - done);
    const auto size = static_cast<std::size_t>(count);
    // Use the writer's descriptor: the file exists while it is open, even if another process removes its name.
    if (state_->file.read_some_at(block.get(), size, done) != count) {
      ::unlink(to.c_str());
      return std::nullopt;
    }
    checksum = crc32_z(checksum, block.get(), size);
    if (!copied.write_all(block.get(), size)) fail_with_errno(core::ExitCode::files, "write", to);
    done += count;
  }
  if (!copied.close()) fail_with_errno(core::ExitCode::files, "write", to);
  if (durability == Durability::forced) sync_to_disk(to);
  return static_cast<std::uint32_t>(checksum);
}

bool Journal::begins_with(const std::string& path, const std::string& beginning) {
  const Descriptor whole(path, O_RDONLY), part(beginning, O_RDONLY);
  if (!whole.valid() || !part.valid()) return false;
  const auto own = std::make_unique_for_overwrite<char[]>(journal_block);
  bool same = true;
  const bool read = part.read_blocks(journal_block, [&](const char* block, std::size_t size) {
    same = same && whole.read_some(own.get(), size) == static_cast<ssize_t>(size) &&
           std::memcmp(own.get(), block, size) == 0;
  });
  return read && same;
}

void Journal::sync() {
  if (::fdatasync(state_->file.get()) != 0) fail_with_errno(core::ExitCode::files, "force to the disk", state_->path);
}

std::int64_t Journal::replay(const std::string& path, const std::string& title,
                             const std::function<void(std::string_view)>& line) {
  const Descriptor file(path, O_RDONLY);
  if (!file.valid()) fail_with_errno(core::ExitCode::files, "open", path);
  std::string rest;  // of a line split by the end of a block
  std::int64_t bad = 0;
  bool first = true;
  const auto take = [&](std::string_view text) {
    const bool good = is_good(text);
    if (first && (!good || text.substr(checksum_size) != title)) {
      throw Damaged(core::ExitCode::files, "Cannot use '" + path + "': it does not begin as a '" + title + "'.");
    }
    if (!first && good) line(text.substr(checksum_size));
    // Terminating a torn line may leave an empty one.
    if (!good && !text.empty()) ++bad;
    first = false;
  };
  const bool read = file.read_blocks(journal_block, [&](const char* block, std::size_t size) {
    std::string_view text(block, size);
    for (std::size_t end; (end = text.find('\n')) != std::string_view::npos; text.remove_prefix(end + 1)) {
      rest += text.substr(0, end);
      take(rest);
      rest.clear();
    }
    rest += text;
  });
  if (!read) throw Damaged(core::ExitCode::files, "Cannot read '" + path + "': " + std::strerror(errno) + '.');
  // Text without a newline was being written when its process ended; it counts as a bad line even if it is complete.
  if (first || !rest.empty()) take(rest);
  return bad;
}

}  // namespace bert_hpc::io
