#include "app/run/checkpoint_owner.hpp"

#include <cstdint>
#include <filesystem>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* mark_name = ".run";

/// Target of the link RUN/checkpoints; empty if the folder lies in the run's directory or does not exist.
fs::path linked_folder(const fs::path& run) {
  std::error_code problem;
  const fs::path folder = fs::canonical(run / "checkpoints", problem);
  return problem || fs::equivalent(folder.parent_path(), run, problem) ? fs::path() : folder;
}

/// The run that has marked this folder, or whose directory contains it. A mark remains when its run is moved or
/// removed.
fs::path owner_of(const fs::path& folder) {
  constexpr std::int64_t longest_path = 1 << 16;
  const fs::path mark = folder / mark_name;
  std::error_code ignored;
  const std::string text = fs::exists(mark, ignored) ? core::read_text_file(mark.string(), longest_path) : "";
  return text.empty() ? folder.parent_path() : fs::path(text);
}

}  // namespace

std::string other_owner_of_checkpoints(const std::string& run) {
  const fs::path folder = linked_folder(run);
  if (folder.empty()) return {};
  const fs::path owner = owner_of(folder);
  std::error_code problem;
  const bool writes_there =
      fs::exists(owner / ".status", problem) && fs::equivalent(owner / "checkpoints", folder, problem);
  return writes_there && !fs::equivalent(owner, run, problem) ? owner.string() : std::string();
}

void own_checkpoints(const std::string& run) {
  const fs::path folder = linked_folder(run);
  if (folder.empty()) return;
  io::write_text_file((folder / mark_name).string(), fs::canonical(run).string(), core::ExitCode::files);
}

void check_checkpoint_owner(const std::string& run) {
  const std::string owner = other_owner_of_checkpoints(run);
  if (owner.empty()) return;
  throw core::Error(core::ExitCode::input,
                    core::printable(run + "/checkpoints") + " is a link to the checkpoints of another run, " +
                        core::printable(owner) +
                        ", which this run would overwrite and prune: remove the link. To start from one of them, set "
                        "run.resume to its folder.");
}

}  // namespace bert_hpc::app
