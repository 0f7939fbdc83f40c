#include "bert_hpc/data/shared_reading.hpp"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/file_list.hpp"

namespace bert_hpc::data {
namespace {

constexpr std::size_t most_repeated = 20;  // files that are listed twice and named

// Bytes of the files that are sent together, unless one file is larger. Messages are few, and their contents take
// little memory.
constexpr std::int64_t bytes_of_part = std::int64_t{32} << 20;
constexpr std::size_t most_files_of_part = 256;

}  // namespace

ListedShards list_shards(const std::string& name, const std::vector<std::string>& paths,
                         const std::vector<std::int64_t>& repeats) {
  ListedShards shards;
  core::ProblemList problems;
  std::vector<ListedFile> listed;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::vector<std::string> files = match_paths({paths[i]}, problems);
    for (const std::string& file : files) listed.push_back({name, file});
    for (std::int64_t times = repeats.empty() ? 1 : repeats[i]; times > 0; --times) {
      shards.files.insert(shards.files.end(), files.begin(), files.end());
    }
    shards.ends.push_back(std::ssize(shards.files));
  }
  if (shards.files.empty() && problems.empty()) problems.add("No shard is given.");
  for (const RepeatedFile& file : repeated_files(listed)) {
    if (problems.all().size() == most_repeated) break;
    problems.add(describe(file) + ": its samples would count twice. List every shard once, by name or by pattern" +
                 (name == "data.train" ? ", or set data.repeat." : "."));
  }
  shards.problems = problems.all();
  for (const std::string& file : shards.files) {
    std::error_code unreadable;  // which opening it will say
    const auto size = std::filesystem::file_size(file, unreadable);
    shards.sizes.push_back(unreadable ? 0 : static_cast<std::int64_t>(size));
  }
  return shards;
}

std::vector<Part> parts_of(std::span<const std::int64_t> sizes, int ranks) {
  const std::size_t each_rank = sizes.size() / static_cast<std::size_t>(ranks);  // no more, so that all have work
  const std::size_t most_files = std::clamp<std::size_t>(each_rank, 1, most_files_of_part);
  std::vector<Part> parts;
  std::int64_t bytes = 0;
  for (std::size_t f = 0; f < sizes.size(); ++f) {
    const bool fits = !parts.empty() && f - parts.back().begin < most_files && bytes + sizes[f] <= bytes_of_part;
    if (!fits) {
      parts.push_back({f, f});
      bytes = 0;
    }
    parts.back().end = f + 1;
    bytes += sizes[f];
  }
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

/// Collective. False, or throws what went wrong here, where a rank has failed.
bool SharedReading::all_well() {
  const bool fails = ranks_.count == 1 ? failure_ != nullptr : ranks_.any(failure_ != nullptr);
  if (failure_) std::rethrow_exception(failure_);
  return !fails;
}

/// Collective. `value` becomes that of rank `root`. As all_well().
template <class T>
bool SharedReading::send(T& value, int root) {
  if (ranks_.count == 1) return all_well();
  std::string message;
  if (ranks_.rank == root) guarded([&] { message = core::to_message(value); });
  auto size = static_cast<std::int64_t>(message.size());
  ranks_.broadcast(std::as_writable_bytes(std::span(&size, 1)), root);
  guarded([&] { message.resize(static_cast<std::size_t>(size)); });
  if (!all_well()) return false;
  ranks_.broadcast(std::as_writable_bytes(std::span(message.data(), message.size())), root);
  if (ranks_.rank != root) guarded([&] { value = core::from_message<T>(message); });
  return true;
}

std::optional<ListedShards> SharedReading::once(const std::function<ListedShards()>& make) {
  ListedShards result;
  if (ranks_.rank == 0) guarded([&] { result = make(); });
  if (!send(result, 0) || !all_well()) return {};
  return result;
}

bool SharedReading::each(std::span<const std::int64_t> sizes, const std::function<ShardContent(std::size_t)>& read,
                         const std::function<void(std::size_t, ShardContent)>& add) {
  const std::vector<Part> parts = parts_of(sizes, ranks_.count);
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
      if (!send(contents, root)) return false;
      guarded([&] {
        for (std::size_t i = 0; i < contents.size(); ++i) add(parts[p].begin + i, std::move(contents[i]));
      });
    }
  }
  return all_well();
}

}  // namespace bert_hpc::data
