// Reads and checks the token ids of shards, block by block as a run does, in one thread:
//   bench_shards FOLDER...
// prints the best of three rounds for each folder, in tokens a second. After the first round the files lie in the page
// cache where it has room for them.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <vector>

#include "bert_hpc/data/shard_file.hpp"

namespace {

using namespace bert_hpc;

/// Returns the number of tokens.
std::int64_t read_all(const std::filesystem::path& path) {
  constexpr std::int64_t block = std::int64_t{1} << 16;  // data::ShardReaderOptions::block
  data::ShardLimits limits;
  limits.task = tasks::find("masked_lm");  // which shards of any task serve
  const data::ShardFile shard = data::ShardFile::open(path.string(), limits, std::nullopt);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(block));
  for (std::int64_t begin = 0; begin < shard.info().tokens; begin += block) {
    const std::int64_t count = std::min(block, shard.info().tokens - begin);
    shard.read_tokens(begin, std::span(ids).first(static_cast<std::size_t>(count)), {});
  }
  return shard.info().tokens;
}

}  // namespace

int main(int count, char** arguments) {
  for (int a = 1; a < count; ++a) {
    double best = 0;
    for (int round = 0; round < 3; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      std::int64_t tokens = 0;
      for (const auto& entry : std::filesystem::directory_iterator(arguments[a])) {
        if (entry.path().extension() == ".h5") tokens += read_all(entry.path());
      }
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
      best = std::max(best, static_cast<double>(tokens) / seconds.count());
    }
    std::printf("%s: %.0f million tokens a second\n", arguments[a], best / 1e6);
  }
}
