// Plain positioned reads and writes: the page cache serves random rows of what was just written.
#include "bert_hpc/prep/token_store.hpp"

#include <fcntl.h>
#include <unistd.h>

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

TokenStore::TokenStore(const std::string& directory, int rank, int ranks)
    : directory_(directory), rank_(rank), ranks_(ranks) {
  writer_ = core::create_own_file(path(rank));
  if (writer_ < 0) fail(path(rank), "cannot be created");
  block_.reserve(block_values);
}

TokenStore::~TokenStore() {
  if (writer_ >= 0) ::close(writer_);
  for (const int reader : readers_) ::close(reader);
}

std::string TokenStore::path(int rank) const {
  return directory_ + "/tokens-" + std::to_string(rank);
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

void TokenStore::open_for_reading(std::vector<std::int32_t> lengths) {
  lengths_ = std::move(lengths);
  starts_.resize(lengths_.size());
  std::vector<std::int64_t> end(static_cast<std::size_t>(ranks_), 0);
  for (std::size_t row = 0; row < lengths_.size(); ++row) {
    std::int64_t& place = end[static_cast<std::size_t>(owner(static_cast<std::int64_t>(row), ranks_))];
    starts_[row] = place;
    place += lengths_[row];
  }
  for (int r = 0; r < ranks_; ++r) {
    const int reader = ::open(path(r).c_str(), O_RDONLY | O_CLOEXEC);
    if (reader < 0) fail(path(r), "cannot be opened");
    readers_.push_back(reader);
  }
}

void TokenStore::read(std::int64_t row, std::int64_t first, std::int64_t count, std::int32_t* out) const {
  const auto owning = static_cast<std::size_t>(owner(row, ranks_));
  auto* data = reinterpret_cast<char*>(out);
  auto left = static_cast<std::size_t>(count) * sizeof(std::int32_t);
  auto place = (starts_[static_cast<std::size_t>(row)] + first) * static_cast<std::int64_t>(sizeof(std::int32_t));
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
