#include "bert_hpc/data/shared_reading.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/file_list.hpp"

namespace bert_hpc::data {
namespace {

constexpr std::size_t most_repeated = 20;  // files that are listed twice and named

// A part is large enough that messages are few, and small enough that its contents take little memory.
constexpr std::int64_t bytes_of_part = std::int64_t{32} << 20;
constexpr std::int64_t most_files_of_part = 256;

}  // namespace

ListedShards list_shards(const std::string& name, const std::vector<std::string>& paths) {
  ListedShards shards;
  core::ProblemList problems;
  shards.files = match_paths(paths, problems);
  if (shards.files.empty() && problems.empty()) problems.add("No shard is given.");
  std::vector<ListedFile> listed;
  for (const std::string& file : shards.files) listed.push_back({name, file});
  for (const RepeatedFile& file : repeated_files(listed)) {
    if (problems.all().size() == most_repeated) break;
    problems.add(describe(file) + ": its samples would count twice. List every shard once, by name or by pattern.");
  }
  shards.problems = problems.all();
  for (const std::string& file : shards.files) {
    std::error_code unreadable;  // which opening it will say
    const auto size = std::filesystem::file_size(file, unreadable);
    shards.sizes.push_back(unreadable ? 0 : static_cast<std::int64_t>(size));
  }
  return shards;
}

std::vector<Part> parts_of(std::size_t files, std::int64_t bytes, int ranks) {
  const auto count = static_cast<std::int64_t>(files);
  const std::int64_t mean = std::max<std::int64_t>(1, bytes / std::max<std::int64_t>(1, count));
  const std::int64_t each_rank = count / ranks;  // no more, so that all ranks have work
  const auto step = static_cast<std::size_t>(
      std::max<std::int64_t>(1, std::min({bytes_of_part / mean, most_files_of_part, each_rank})));
  std::vector<Part> parts;
  for (std::size_t begin = 0; begin < files; begin += step) parts.push_back({begin, std::min(begin + step, files)});
  return parts;
}

void SharedReading::guarded(const std::function<void()>& work) {
  if (failure_) return;
  try {
    work();
  } catch (...) {
    failure_ = std::current_exception();
  }
}

/// Collective. `value` becomes that of rank `root`, or `instead` where that rank has failed.
template <class T>
void SharedReading::send(T& value, int root, const T& instead) {
  if (ranks_.count == 1) return;
  std::string message;
  if (ranks_.rank == root) {
    guarded([&] { message = core::to_message(value); });
    if (failure_) message = core::to_message(instead);
  }
  message = ranks_.broadcast(std::move(message), root);
  if (ranks_.rank != root) guarded([&] { value = core::from_message<T>(message); });
}

ListedShards SharedReading::once(const std::function<ListedShards()>& make) {
  ListedShards result;
  if (ranks_.rank == 0) guarded([&] { result = make(); });
  send(result, 0, {.files = {}, .sizes = {}, .problems = {"Rank 0 failed while it looked for shards."}});
  if (failure_) std::rethrow_exception(failure_);
  return result;
}

void SharedReading::each(const std::vector<std::string>& files, std::int64_t bytes,
                         const std::function<ShardContent(std::size_t)>& read,
                         const std::function<void(std::size_t, ShardContent)>& add) {
  const std::vector<Part> parts = parts_of(files.size(), bytes, ranks_.count);
  const auto ranks = static_cast<std::size_t>(ranks_.count);
  for (std::size_t round = 0; round < parts.size(); round += ranks) {
    std::vector<ShardContent> mine;
    const std::size_t own = round + static_cast<std::size_t>(ranks_.rank);
    if (own < parts.size()) {
      guarded([&] {
        for (std::size_t f = parts[own].begin; f < parts[own].end; ++f) mine.push_back(read(f));
      });
    }
    for (std::size_t p = round; p < std::min(round + ranks, parts.size()); ++p) {
      const int root = static_cast<int>(p - round);
      std::vector<ShardContent> contents;
      if (root == ranks_.rank) contents = std::move(mine);
      ShardContent failed;
      failed.problem = files[parts[p].begin] + ": rank " + std::to_string(root) + " failed while it read it.";
      send(contents, root, {failed});
      guarded([&] {
        for (std::size_t i = 0; i < contents.size(); ++i) add(parts[p].begin + i, std::move(contents[i]));
      });
    }
  }
  if (failure_) std::rethrow_exception(failure_);
}

}  // namespace bert_hpc::data
