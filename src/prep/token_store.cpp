// Plain writes; reads are of mapped files, because the page cache has what was just written, and rows are taken one by
// one in random order.
#include "bert_hpc/prep/token_store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/prep/row_number.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;
constexpr std::size_t cache_line = 64, most_lines = 16;  // bytes; lines of a sequence that are asked for ahead

[[noreturn]] void fail(const std::string& path, const char* what, const char* advice = "") {
  throw Error(ExitCode::files, path + ": " + what + ": " + std::strerror(errno) + '.' + advice);
}

constexpr const char* space_advice =
    " Scratch files in [output] directory need 2 bytes per token, up to 12 of tasks with words and answers.";

/// The file, which has `bytes` bytes.
std::span<const std::byte> mapped(const std::string& path, std::int64_t bytes) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, "cannot be opened");
  const bool is_whole = ::lseek(file, 0, SEEK_END) == bytes;
  void* const data = is_whole && bytes > 0
                         ? ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_PRIVATE, file, 0)
                         : nullptr;
  ::close(file);
  if (!is_whole)
    throw Error(ExitCode::files, path + ": does not have the size that was written; did another process change it?");
  if (data == MAP_FAILED) fail(path, "cannot be mapped");
  return {static_cast<const std::byte*>(data), static_cast<std::size_t>(bytes)};
}

}  // namespace

TokenStore::TokenStore(const std::string& directory, int rank, int ranks, ValueWidth width, const std::string& name)
    : directory_(directory), name_(name), rank_(rank), ranks_(ranks), width_(static_cast<std::size_t>(width)) {
  writer_ = core::create_own_file(path(rank));
  if (writer_ < 0) fail(path(rank), "cannot be created");
  buffer_.reserve(buffer_bytes);
}

TokenStore::~TokenStore() {
  if (writer_ >= 0) ::close(writer_);
  for (const auto& file : files_) {
    if (!file.empty()) ::munmap(const_cast<std::byte*>(file.data()), file.size());
  }
}

std::string TokenStore::path(int rank) const {
  return directory_ + '/' + name_ + '-' + std::to_string(rank);
}

void TokenStore::append(std::span<const std::int32_t> values) {
  const std::size_t begin = buffer_.size();
  buffer_.resize(begin + values.size() * width_);
  if (width_ == sizeof(std::int32_t)) {
    std::memcpy(buffer_.data() + begin, values.data(), values.size_bytes());
  } else {
    std::uint32_t all_bits = 0;
    auto* const out = reinterpret_cast<std::uint16_t*>(buffer_.data() + begin);
    for (std::size_t i = 0; i < values.size(); ++i) {
      all_bits |= static_cast<std::uint32_t>(values[i]);
      out[i] = static_cast<std::uint16_t>(values[i]);
    }
    core::require(all_bits <= std::numeric_limits<std::uint16_t>::max(), "scratch file: a value that takes more bits");
  }
  if (buffer_.size() >= buffer_bytes) flush();
}

void TokenStore::flush() {
  const std::byte* data = buffer_.data();
  std::size_t left = buffer_.size();
  while (left > 0) {
    const ssize_t written = ::write(writer_, data, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path(rank_), "writing failed", space_advice);
    data += written;
    left -= static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

void TokenStore::finish_writing() {
  flush();
  const int writer = writer_;
  writer_ = -1;
  if (::close(writer) != 0) fail(path(rank_), "writing failed", space_advice);
}

void TokenStore::open_for_reading(core::NarrowArray counts, core::NarrowArray lengths) {
  counts_ = std::move(counts);
  lengths_ = std::move(lengths);
  require_numbers(static_cast<std::int64_t>(lengths_.size()), "sequence");
  const bool has_one_each = counts_.all_equal() && lengths_.size() == counts_.size();
  std::vector<std::int64_t> end(static_cast<std::size_t>(ranks_), 0);
  std::int64_t sequence = 0;
  const auto rows = static_cast<std::int64_t>(counts_.size());
  blocks_.reserve(static_cast<std::size_t>(rows / rows_of_block + 1));
  for (std::int64_t row = 0; row < rows; ++row) {
    std::int64_t& values_before = end[static_cast<std::size_t>(owner(row, ranks_))];
    if (row % rows_of_block == 0) blocks_.push_back({sequence, values_before});
    for (const std::int64_t last = sequence + count(row); sequence < last; ++sequence) {
      if (!has_one_each && sequence % stride == 0) row_at_.push_back(row);
      values_before += length(sequence);
    }
  }
  for (int r = 0; r < ranks_; ++r) {
    const std::int64_t values = end[static_cast<std::size_t>(r)];
    files_.push_back(mapped(path(r), values * static_cast<std::int64_t>(width_)));
  }
}

/// Blocks of rows by their first sequences, then row by row: many rows may have no sequence.
std::int64_t TokenStore::row_of(std::int64_t sequence) const {
  if (row_at_.empty()) return sequence;
  const auto hint = static_cast<std::size_t>(sequence / stride);
  std::int64_t block = row_at_[hint] / rows_of_block;
  std::int64_t last = hint + 1 < row_at_.size() ? row_at_[hint + 1] / rows_of_block : std::ssize(blocks_) - 1;
  while (block < last) {
    const std::int64_t middle = (block + last + 1) / 2;
    if (blocks_[static_cast<std::size_t>(middle)].sequence <= sequence) {
      block = middle;
    } else {
      last = middle - 1;
    }
  }
  std::int64_t row = block * rows_of_block;
  std::int64_t end = sequences_of(row).end;
  while (end <= sequence) end += count(++row);
  return row;
}

const std::byte* TokenStore::address_of(std::int64_t sequence, std::int64_t row) const {
  const First& first = first_of_block(row);
  const std::int64_t value =
      first.value + lengths_.sum(static_cast<std::size_t>(first.sequence), static_cast<std::size_t>(sequence));
  return files_[static_cast<std::size_t>(owner(row, ranks_))].data() + static_cast<std::size_t>(value) * width_;
}

void TokenStore::read(std::int64_t sequence, std::int64_t row, std::int64_t from, std::span<std::int32_t> out) const {
  const std::byte* const at = address_of(sequence, row) + static_cast<std::size_t>(from) * width_;
  if (width_ == sizeof(std::int32_t)) {
    std::memcpy(out.data(), at, out.size_bytes());
  } else {
    std::copy_n(reinterpret_cast<const std::uint16_t*>(at), out.size(), out.data());
  }
}

void TokenStore::prefetch_offsets(std::int64_t row) const {
  __builtin_prefetch(&first_of_block(row));
  if (!row_at_.empty()) return;  // else lengths are found by row
  constexpr std::int64_t lengths_of_line = cache_line / sizeof(std::uint16_t);
  for (std::int64_t r = row / rows_of_block * rows_of_block; r <= row; r += lengths_of_line) {
    lengths_.prefetch(static_cast<std::size_t>(r));
  }
}

void TokenStore::prefetch(std::int64_t sequence, std::int64_t row) const {
  const std::byte* const begin = address_of(sequence, row);
  const std::size_t bytes = static_cast<std::size_t>(length(sequence)) * width_;
  for (std::size_t at = 0; at < std::min(bytes, most_lines * cache_line); at += cache_line) {
    __builtin_prefetch(begin + at);
  }
}

}  // namespace bert_hpc::prep
