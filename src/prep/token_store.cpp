// Plain positioned reads and writes: the page cache serves random rows of what was just written.
#include "bert_hpc/prep/token_store.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"

namespace bert_hpc::prep {

using core::Error;
using core::ExitCode;

namespace {

constexpr std::size_t block_values = 1 << 18;  // 1 MiB a write

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(ExitCode::files, path + ": " + what + ": " + std::strerror(errno) +
                                   ". Scratch files in [output] directory need 4 bytes per token.");
}

}  // namespace

TokenStore::TokenStore(const std::string& directory, int rank, int ranks, const std::string& name)
    : directory_(directory), name_(name), rank_(rank), ranks_(ranks) {
  writer_ = core::create_own_file(path(rank));
  if (writer_ < 0) fail(path(rank), "cannot be created");
  block_.reserve(block_values);
}

TokenStore::~TokenStore() {
  if (writer_ >= 0) ::close(writer_);
  for (const int reader : readers_) ::close(reader);
}

std::string TokenStore::path(int rank) const {
  return directory_ + '/' + name_ + '-' + std::to_string(rank);
}

void TokenStore::append(std::span<const std::int32_t> values) {
  block_.insert(block_.end(), values.begin(), values.end());
  if (block_.size() >= block_values) flush();
}

void TokenStore::flush() {
  const char* data = reinterpret_cast<const char*>(block_.data());
  std::size_t left = block_.size() * sizeof(std::int32_t);
  while (left > 0) {
    const ssize_t written = ::write(writer_, data, left);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail(path(rank_), "writing failed");
    data += written;
    left -= static_cast<std::size_t>(written);
  }
  block_.clear();
}

void TokenStore::finish_writing() {
  flush();
  const int writer = writer_;
  writer_ = -1;
  if (::close(writer) != 0) fail(path(rank_), "writing failed");
}

void TokenStore::open_for_reading(const std::vector<std::int32_t>& counts, std::vector<std::int32_t> lengths) {
  lengths_ = std::move(lengths);
  first_.assign(1, 0);
  first_.reserve(counts.size() + 1);
  starts_.reserve(lengths_.size());
  std::vector<std::int64_t> end(static_cast<std::size_t>(ranks_), 0);
  for (std::size_t row = 0; row < counts.size(); ++row) {
    std::int64_t& place = end[static_cast<std::size_t>(owner(static_cast<std::int64_t>(row), ranks_))];
    for (std::int32_t i = 0; i < counts[row]; ++i) {
      const std::int32_t length = lengths_[starts_.size()];
      starts_.push_back(place);
      place += length;
    }
    first_.push_back(std::ssize(starts_));
  }
  for (int r = 0; r < ranks_; ++r) {
    const int reader = ::open(path(r).c_str(), O_RDONLY | O_CLOEXEC);
    if (reader < 0) fail(path(r), "cannot be opened");
    readers_.push_back(reader);
  }
}

std::int64_t TokenStore::row_of(std::int64_t sequence) const {
  return std::upper_bound(first_.begin(), first_.end(), sequence) - first_.begin() - 1;
}

void TokenStore::read(std::int64_t sequence, std::int64_t first, std::int64_t count, std::int32_t* out) const {
  const auto owning = static_cast<std::size_t>(owner(row_of(sequence), ranks_));
  auto* data = reinterpret_cast<char*>(out);
  auto left = static_cast<std::size_t>(count) * sizeof(std::int32_t);
  auto place = (starts_[static_cast<std::size_t>(sequence)] + first) * static_cast<std::int64_t>(sizeof(std::int32_t));
  while (left > 0) {
    const ssize_t got = ::pread(readers_[owning], data, left, place);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path(static_cast<int>(owning)), "reading failed");
    if (got == 0) {
      throw Error(ExitCode::files, path(static_cast<int>(owning)) + ": ends too early; did another process change it?");
    }
    data += got;
    left -= static_cast<std::size_t>(got);
    place += got;
  }
}

}  // namespace bert_hpc::prep
