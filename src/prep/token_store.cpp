// Plain writes; reads are of mapped files, because the page cache has what was just written, and rows are taken one by
// one in random order.
#include "bert_hpc/prep/token_store.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t buffer_values = 1 << 18;  // 1 MiB a write

[[noreturn]] void fail(const std::string& path, const char* what, const char* advice = "") {
  throw Error(ExitCode::files, path + ": " + what + ": " + std::strerror(errno) + '.' + advice);
}

constexpr const char* space_advice = " Scratch files in [output] directory need 4 bytes per token.";

/// The file, which has `values` values.
std::span<const std::int32_t> mapped(const std::string& path, std::int64_t values) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail(path, "cannot be opened");
  const std::int64_t bytes = values * std::int64_t{sizeof(std::int32_t)};
  const bool is_whole = ::lseek(file, 0, SEEK_END) == bytes;
  void* const data = is_whole && bytes > 0
                         ? ::mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ, MAP_PRIVATE, file, 0)
                         : nullptr;
  ::close(file);
  if (!is_whole)
    throw Error(ExitCode::files, path + ": does not have the size that was written; did another process change it?");
  if (data == MAP_FAILED) fail(path, "cannot be mapped");
  return {static_cast<const std::int32_t*>(data), static_cast<std::size_t>(values)};
}

}  // namespace

TokenStore::TokenStore(const std::string& directory, int rank, int ranks, const std::string& name)
    : directory_(directory), name_(name), rank_(rank), ranks_(ranks) {
  writer_ = core::create_own_file(path(rank));
  if (writer_ < 0) fail(path(rank), "cannot be created");
  buffer_.reserve(buffer_values);
}

TokenStore::~TokenStore() {
  if (writer_ >= 0) ::close(writer_);
  for (const auto& file : files_) {
    if (!file.empty()) ::munmap(const_cast<std::int32_t*>(file.data()), file.size_bytes());
  }
}

std::string TokenStore::path(int rank) const {
  return directory_ + '/' + name_ + '-' + std::to_string(rank);
}

void TokenStore::append(std::span<const std::int32_t> values) {
  buffer_.insert(buffer_.end(), values.begin(), values.end());
  if (buffer_.size() >= buffer_values) flush();
}

void TokenStore::flush() {
  const char* data = reinterpret_cast<const char*>(buffer_.data());
  std::size_t left = buffer_.size() * sizeof(std::int32_t);
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

void TokenStore::open_for_reading(std::vector<std::int32_t> counts, std::vector<std::int32_t> lengths) {
  counts_ = data::SequenceTable(std::move(counts));
  lengths_ = data::SequenceTable(std::move(lengths));
  std::vector<std::int64_t> end(static_cast<std::size_t>(ranks_), 0);
  std::int64_t sequence = 0;
  for (std::int64_t row = 0; row < counts_.sequences(); ++row) {
    std::int64_t& place = end[static_cast<std::size_t>(owner(row, ranks_))];
    if (row % rows_of_block == 0) block_begin_.push_back(place);
    for (const std::int64_t last = sequence + counts_.length(row); sequence < last; ++sequence) {
      if (sequence % stride == 0) row_at_.push_back(row);
      place += lengths_.length(sequence);
    }
  }
  for (int r = 0; r < ranks_; ++r) files_.push_back(mapped(path(r), end[static_cast<std::size_t>(r)]));
}

/// Blocks of rows by their first sequences, then row by row: many rows may have no sequence.
std::int64_t TokenStore::row_of(std::int64_t sequence) const {
  const auto hint = static_cast<std::size_t>(sequence / stride);
  std::int64_t block = row_at_[hint] / rows_of_block;
  std::int64_t last = hint + 1 < row_at_.size() ? row_at_[hint + 1] / rows_of_block : std::ssize(block_begin_) - 1;
  while (block < last) {
    const std::int64_t middle = (block + last + 1) / 2;
    if (counts_.begin(middle * rows_of_block) <= sequence) {
      block = middle;
    } else {
      last = middle - 1;
    }
  }
  std::int64_t row = block * rows_of_block;
  std::int64_t end = sequences_of(row).end;
  while (end <= sequence) end += counts_.length(++row);
  return row;
}

std::span<const std::int32_t> TokenStore::values(std::int64_t sequence, std::int64_t row) const {
  const std::int64_t block = row / rows_of_block;
  const std::int64_t first = counts_.begin(block * rows_of_block);  // sequence of the block
  const std::int64_t begin =
      block_begin_[static_cast<std::size_t>(block)] + lengths_.begin(sequence) - lengths_.begin(first);
  return files_[static_cast<std::size_t>(owner(row, ranks_))].subspan(static_cast<std::size_t>(begin),
                                                                      static_cast<std::size_t>(length(sequence)));
}

}  // namespace bert_hpc::prep
