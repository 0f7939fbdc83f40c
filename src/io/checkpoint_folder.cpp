#include "bert_hpc/io/checkpoint_folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>

#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/checksummed_file.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

namespace fs = std::filesystem;
using detail::fail_with_errno;

namespace {

using core::ExitCode;
constexpr const char* step_prefix = "step-";
constexpr const char* staging_prefix = ".writing-";
constexpr const char* replaced_prefix = ".replaced-";
constexpr const char* doomed_prefix = ".removing-";
constexpr const char* set_aside_prefix = "set-aside-";
constexpr std::int64_t spare_bytes = std::int64_t{1} << 20;  // metrics, log
constexpr std::uintmax_t longest_pointer = 4096;

template <class Work>
auto with_reason(const std::string& doing, const std::string& path, const Work& work) {
  try {
    return work();
  } catch (const fs::filesystem_error& error) {
    throw core::Error(ExitCode::files, "Cannot " + doing + " '" + path + "': " + error.code().message() + ".");
  }
}

void rename_over(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_with_errno(ExitCode::files, "rename '" + from + "' to", to);
}

/// `stem`, followed by a number if that name is taken.
std::string free_name(const std::string& folder, const std::string& stem) {
  std::string name = stem;
  std::error_code problem;
  for (int i = 2; fs::exists(fs::symlink_status(folder + '/' + name, problem)); ++i) {
    name = stem + '-' + std::to_string(i);
  }
  return name;
}

/// Marks a folder for removal by sweep(). It is renamed first, so that a kill during removal leaves nothing that looks
/// complete, and files that cannot be removed are out of the way.
void doom(const std::string& folder, const std::string& name) {
  rename_over(folder + '/' + name, folder + '/' + free_name(folder, doomed_prefix + name));
}

/// Time of the last change, ns; for a link, that of the link itself.
std::int64_t time_of(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) return 0;
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

/// Removes everything marked for removal. Returns what remains, which a later sweep removes: on NFS, removing an open
/// file leaves a hidden one, so that its folder is not empty.
std::string sweep(const std::string& folder) {
  std::string left;
  for (const std::string& name : names_in(folder)) {
    std::error_code problem;
    if (name.starts_with(doomed_prefix)) fs::remove_all(folder + '/' + name, problem);
    if (problem && left.empty()) {
      left = "Cannot remove '" + folder + '/' + name + "' yet: " + problem.message() + '.';
    }
  }
  return left;
}

}  // namespace

std::string checkpoint_name(std::int64_t step) {
  char name[32];
  std::snprintf(name, sizeof name, "%s%08lld", step_prefix, static_cast<long long>(step));
  return name;
}

std::optional<std::int64_t> step_of_checkpoint(const std::string& name) {
  if (!name.starts_with(step_prefix)) return std::nullopt;
  std::int64_t step = 0;
  const char *begin = name.data() + std::string_view(step_prefix).size(), *end = name.data() + name.size();
  const auto [stop, problem] = std::from_chars(begin, end, step);
  if (problem != std::errc{} || stop != end || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

std::string CheckpointFolder::path_of(std::int64_t step) const {
  return path_ + '/' + checkpoint_name(step);
}

std::string CheckpointFolder::staging(std::int64_t step) const {
  return path_ + '/' + staging_prefix + checkpoint_name(step);
}

std::vector<std::int64_t> CheckpointFolder::steps() const {
  std::vector<std::int64_t> found;
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(path_, problem)) {
    const auto step = step_of_checkpoint(entry.path().filename().string());
    std::error_code ignored;
    if (step && entry.is_directory(ignored)) found.push_back(*step);
  }
  if (problem && problem != std::errc::no_such_file_or_directory) {
    throw core::Error(ExitCode::files, "Cannot list '" + path_ + "': " + problem.message() + ".");
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::optional<std::int64_t> CheckpointFolder::named(const std::string& pointer) const {
  const std::string path = path_ + '/' + pointer;
  std::error_code problem;
  if (!fs::is_regular_file(path, problem) || fs::file_size(path, problem) > longest_pointer) return std::nullopt;
  std::string name = core::read_text_file(path, static_cast<std::int64_t>(longest_pointer), ExitCode::files);
  while (!name.empty() && (name.back() == '\n' || name.back() == '\r')) name.pop_back();
  return step_of_checkpoint(name);
}

void CheckpointFolder::refuse_links(std::int64_t step) const {
  refuse_link(path_of(step), ExitCode::files);
  std::error_code problem;  // if listing fails, the reader of the checkpoint reports it
  for (const fs::directory_entry& entry : fs::directory_iterator(path_of(step), problem)) {
    refuse_link(entry.path().string(), ExitCode::files);
  }
}

void CheckpointFolder::tidy() const {
  with_reason("tidy", path_, [&] {
    if (!fs::exists(path_)) return;
    for (const std::string& name : names_in(path_)) {
      if (name.starts_with(staging_prefix)) doom(path_, name);
      if (!name.starts_with(replaced_prefix)) continue;
      const std::string original = path_ + '/' + name.substr(std::string_view(replaced_prefix).size());
      if (fs::exists(fs::symlink_status(original))) {
        doom(path_, name);
      } else {
        rename_over(path_ + '/' + name, original);
      }
    }
    sweep(path_);
  });
}

void CheckpointFolder::prepare() const {
  make_directories(path_, ExitCode::files);
  tidy();
}

std::string CheckpointFolder::begin(std::int64_t step) const {
  const std::string folder = staging(step);
  return with_reason("make", folder, [&] {
    fs::create_directories(folder);
    return folder;
  });
}

void CheckpointFolder::publish(std::int64_t step, Durability durability) const {
  const std::string from = staging(step), to = path_of(step);
  const bool forced = durability == Durability::forced;
  if (forced) sync_to_disk(from);
  const std::string old_name = replaced_prefix + checkpoint_name(step);
  const bool replaces = with_reason("look at", to, [&] { return fs::exists(fs::symlink_status(to)); });
  if (replaces) rename_over(to, path_ + '/' + old_name);
  rename_over(from, to);
  if (forced) sync_to_disk(path_);
  if (replaces) doom(path_, old_name);
}

void CheckpointFolder::abandon(std::int64_t step) const {
  with_reason("remove", staging(step), [&] {
    if (fs::exists(staging(step))) doom(path_, fs::path(staging(step)).filename().string());
    sweep(path_);
  });
}

void CheckpointFolder::point(const std::string& pointer, std::int64_t step, Durability durability) const {
  const std::string path = path_ + '/' + pointer, name = checkpoint_name(step) + '\n';
  if (durability == Durability::buffered) return write_text_file_soon(path, name);
  write_text_file(path, name, ExitCode::files);
}

void CheckpointFolder::forget(const std::string& pointer) const {
  with_reason("remove", path_ + '/' + pointer, [&] { fs::remove(path_ + '/' + pointer); });
}

void CheckpointFolder::set_pointers(std::int64_t step, std::optional<std::int64_t> best, Durability durability) const {
  const std::vector<std::int64_t> found = steps();
  const auto named_best = named("best");
  if (best && std::binary_search(found.begin(), found.end(), *best)) {
    if (named_best != best) point("best", *best, durability);
  } else if (named_best && *named_best > step) {
    forget("best");
  }
  if (named("latest") != step) point("latest", step, durability);
}

std::string CheckpointFolder::prune(std::int64_t keep) const {
  std::vector<std::int64_t> found = steps();
  const auto latest = named("latest"), best = named("best");
  const auto spare = static_cast<std::int64_t>(found.size()) - keep;
  for (std::int64_t i = 0; i < spare; ++i) {
    const std::int64_t step = found[static_cast<std::size_t>(i)];
    if (step == latest || step == best) continue;
    doom(path_, checkpoint_name(step));
  }
  return with_reason("remove what is in", path_, [&] { return sweep(path_); });
}

std::string CheckpointFolder::set_aside(std::int64_t step) const {
  const std::string name = free_name(path_, set_aside_prefix + checkpoint_name(step));
  rename_over(path_of(step), path_ + '/' + name);
  // The oldest is removed first, so mark the time. If it is a link, do not touch its target.
  ::utimensat(AT_FDCWD, (path_ + '/' + name).c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
  return name;
}

std::vector<std::string> CheckpointFolder::prune_set_aside(std::size_t keep) const {
  return with_reason("tidy", path_, [&] {
    std::vector<std::pair<std::int64_t, std::string>> found;  // with the time of setting aside, ns
    for (const fs::directory_entry& entry : fs::directory_iterator(path_)) {
      const std::string name = entry.path().filename().string();
      if (name.starts_with(std::string(set_aside_prefix) + step_prefix))
        found.emplace_back(time_of(entry.path()), name);
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> removed;
    for (std::size_t i = 0; i + keep < found.size(); ++i) {
      doom(path_, found[i].second);
      removed.push_back(found[i].second);
    }
    sweep(path_);
    return removed;
  });
}

void CheckpointFolder::require_space(std::int64_t bytes) const {
  // The folder itself, or its nearest existing parent.
  fs::path existing = fs::path(path_).is_absolute() ? fs::path(path_) : "." / fs::path(path_);
  std::error_code problem;
  while (!fs::exists(existing, problem) && existing.has_relative_path()) existing = existing.parent_path();
  const std::string disk = existing.string();
  struct statvfs status {};
  if (::statvfs(disk.c_str(), &status) != 0) fail_with_errno(ExitCode::files, "ask for free space of", disk);
  const auto free = static_cast<std::int64_t>(status.f_bavail) * static_cast<std::int64_t>(status.f_frsize);
  if (free >= bytes + spare_bytes) return;
  throw core::Error(ExitCode::files,
                    "There is too little space in '" + disk + "': a checkpoint takes " +
                        core::format_bytes(bytes + spare_bytes) + ", free are " + core::format_bytes(free) +
                        ". Free some, keep fewer checkpoints (checkpoint.keep), or set run.directory to a larger "
                        "disk.");
}

}  // namespace bert_hpc::io
