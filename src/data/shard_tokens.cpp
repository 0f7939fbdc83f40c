// The tokens of ShardReader: where they are kept, and what reads them.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "token_memory.hpp"

namespace bert_hpc::data {
namespace {

using core::Error;
using core::ExitCode;

constexpr std::size_t max_open_files = 64;

}  // namespace

std::int64_t ShardReader::sequences_of(std::size_t file) const {
  return (file + 1 < files_.size() ? first_sample_[file + 1] : samples()) - first_sample_[file];
}

std::int64_t ShardReader::tokens_of(std::size_t file) const {
  return (file + 1 < files_.size() ? first_token_[file + 1] : table_.tokens()) - first_token_[file];
}

std::int64_t ShardReader::tokens_of_path(std::size_t path) const {
  std::int64_t tokens = 0;
  const auto begin = path == 0 ? 0 : static_cast<std::size_t>(path_ends_[path - 1]);
  for (std::size_t f = begin; f < static_cast<std::size_t>(path_ends_[path]); ++f) tokens += tokens_of(f);
  return tokens;
}

std::vector<std::int64_t> ShardReader::tokens_of_files() const {
  std::vector<std::int64_t> tokens;
  for (std::size_t f = 0; f < files_.size(); ++f) tokens.push_back(tokens_of(f));
  return tokens;
}

TokenCache::Read ShardReader::block_reader() {
  return [this](int file, std::int64_t begin, std::span<std::int32_t> ids, std::span<std::uint8_t> types) {
    const std::lock_guard own(reading_);
    std::unique_lock<std::mutex> lock;
    if (options_.hdf5_mutex) lock = std::unique_lock(*options_.hdf5_mutex);
    const ShardFile& shard = opened(file);
    const std::int64_t before = shard.bytes_read();
    shard.read_tokens(begin, ids, types);
    bytes_read_ += shard.bytes_read() - before;
  };
}

/// Whether all tokens fit into memory_limit; else they go through a cache.
bool ShardReader::fits() const {
  return table_.tokens() * token_layout().token_bytes() <= options_.memory_limit;
}

/// In memory of this process alone, until share().
void ShardReader::keep_tokens() {
  open_files_.resize(files_.size());
  open_order_.reserve(max_open_files);
  if (has_embeddings()) return;
  const std::int64_t bytes = memory_for_tokens(1);
  auto space = static_cast<std::size_t>(aligned(bytes) + token_alignment);
  memory_ = std::shared_ptr<void>(std::calloc(space, 1), std::free);  // zero, and pages as they are used
  if (memory_ == nullptr) throw std::bad_alloc();
  void* begin = memory_.get();
  std::align(token_alignment, static_cast<std::size_t>(bytes), begin, space);
  use({static_cast<std::byte*>(begin), static_cast<std::size_t>(bytes)});
  for (std::size_t f = 0; store_ && f < early_.size(); ++f) {
    store_->fill(static_cast<int>(f), early_[f].ids, early_[f].types);
  }
  early_ = {};
}

std::int64_t ShardReader::memory_for_tokens(int processes) const {
  if (fits()) return TokenStore::bytes(tokens_of_files(), token_layout(), options_.block);
  return TokenCache::bytes(tokens_of_files(), token_layout(), options_.cache_unit, options_.cache_bytes * processes,
                           processes);
}

void ShardReader::use(std::span<std::byte> memory) {
  if (fits()) {
    store_ = std::make_unique<TokenStore>(tokens_of_files(), token_layout(), options_.block, memory, block_reader());
  } else {
    cache_ =
        std::make_unique<TokenCache>(tokens_of_files(), token_layout(), options_.cache_unit, memory, block_reader());
  }
}

std::int64_t ShardReader::token_bytes() const {
  return planned_ || has_embeddings() ? 0 : memory_for_tokens(processes_);
}

std::int64_t ShardReader::bytes_to_share(int processes) const {
  const bool all_read = store_ && reads_at_once();
  return planned_ || all_read || has_embeddings() ? 0 : memory_for_tokens(processes);
}

void ShardReader::share(std::span<std::byte> memory, int processes, int process, std::shared_ptr<void> owner) {
  core::require(bytes_to_share(processes) > 0 && !reader_.joinable(), "tokens are shared before they are read");
  processes_ = processes;
  process_ = process;
  use(memory.first(static_cast<std::size_t>(bytes_to_share(processes))));
  memory_ = std::move(owner);
}

/// Each process begins at another block, and helps the others when its own part is read.
void ShardReader::start_reading() {
  if (!store_ || reads_at_once()) return;
  core::require(!reader_.joinable(), "one thread reads tokens ahead");
  reader_ = std::thread([this, blocks = store_->blocks(), first = store_->blocks() * process_ / processes_] {
    for (std::int64_t i = 0; i < blocks && !stops_; ++i) store_->read_ahead((first + i) % blocks);
  });
}

const ShardFile& ShardReader::opened(int file) {
  auto& shard = open_files_[static_cast<std::size_t>(file)];
  if (!shard) {
    if (open_order_.size() == max_open_files) {
      open_files_[static_cast<std::size_t>(open_order_.front())].reset();
      open_order_.erase(open_order_.begin());
    }
    const auto at = static_cast<std::size_t>(file);
    const std::string& path = files_[at];
    // Verified at the start, when lengths and labels were read: tokens of another file do not go with them.
    const auto require_same = [&] {
      if (io::seal_text(path, ExitCode::data) == seals_[at]) return;
      throw Error(ExitCode::data, path +
                                      ": it was replaced after the run began. Restore the original, or start a "
                                      "new run; a run needs its shards until it ends.");
    };
    require_same();
    ShardInfo info = info_;
    info.sequences = sequences_of(at);
    info.tokens = tokens_of(at);
    auto found = std::make_unique<ShardFile>(ShardFile::reopen(path, options_.limits, info));
    require_same();  // still: what is open now is what was compared
    shard = std::move(found);
    open_order_.push_back(file);
  }
  return *shard;
}

}  // namespace bert_hpc::data
