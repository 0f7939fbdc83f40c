#include "app/run/run_directory.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "bert_hpc/core/descriptor.hpp"
#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/metrics.hpp"

namespace bert_hpc::app {

namespace fs = std::filesystem;

namespace {

constexpr const char* status_name = ".status";
constexpr const char* start_name = ".start";
constexpr const char* input_name = "input.toml";
constexpr const char* replaced_name = ".replaced";
// Everything that a run writes; the rest of a directory is not ours and stays.
constexpr const char* own_names[] = {"input.toml",
                                     "log.txt",
                                     "metrics.h5",
                                     "metrics.journal",
                                     "model",
                                     "adapter",
                                     "checkpoints",
                                     "predictions.h5",
                                     "predictions.json",
                                     "predictions.csv",
                                     "predictions.tsv",
                                     "predictions.conll",
                                     "nbest_predictions.json",
                                     "null_odds.json",
                                     "run.trec",
                                     "embeddings.h5",
                                     "trace.json",
                                     "metrics.journal.damaged",
                                     "tensorboard"};

std::string path_in(const std::string& directory, const char* name) {
  return (fs::path(directory) / name).string();
}

[[noreturn]] void cannot(const std::string& what, const std::string& path, const std::string& why) {
  throw core::Error(core::ExitCode::files, "cannot " + what + ' ' + core::printable(path) + ": " + why + '.');
}

/// "" if there is none. Another process may have left a pipe, a device or a huge file there.
std::string file_text(const fs::path& path) {
  constexpr std::int64_t most_bytes = std::int64_t{1} << 24;
  std::error_code ignored;
  return fs::exists(path, ignored) ? core::read_text_file(path.string(), most_bytes) : std::string();
}

std::string status_of(const fs::path& directory) {
  std::string word;
  std::istringstream(file_text(directory / status_name)) >> word;
  return word;
}

/// A file of a run, or what a killed one left of it.
bool is_own(const std::string& name) {
  const auto is_name = [&](const char* own) { return name == own || name == io::name_beside(own); };
  return std::any_of(std::begin(own_names), std::end(own_names), is_name) || io::is_older_metrics(name);
}

/// Lines of a name and what follows it.
RunStart start_of_text(const std::string& text) {
  RunStart start;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space == std::string::npos) continue;
    const std::string name = line.substr(0, space), value = line.substr(space + 1);
    if (name == "job") start.job = value;
    if (name == "restart") start.restart = std::atoi(value.c_str());
    if (name == "resume") start.resume = value;
    if (name == "cluster") start.cluster = value;
  }
  return start;
}

/// The directory itself, or the nearest one above it that exists.
fs::path nearest_existing(fs::path path) {
  std::error_code error;
  while (!path.empty() && !fs::exists(path, error)) {
    const fs::path above = path.parent_path();
    if (above == path) break;
    path = above;
  }
  return path.empty() ? fs::path(".") : path;
}

}  // namespace

RunStart this_start(const std::string& resume) {
  return {core::environment("SLURM_JOB_ID"), std::atoi(core::environment("SLURM_RESTART_COUNT").c_str()), resume,
          core::environment("SLURM_CLUSTER_NAME")};
}

Beginning beginning_there(const RunDirectory& found, const RunStart& now, bool overwrite) {
  Beginning result{.overwrite = overwrite, .own_first = false};
  if (now.resume == "never") return result;
  // Clusters of one file system count their jobs each from 1.
  const bool same_cluster = found.start.cluster.empty() || found.start.cluster == now.cluster;
  const bool queued_again =
      !now.job.empty() && found.start.job == now.job && same_cluster && found.start.restart < now.restart;
  if (queued_again) result.overwrite = false;
  result.own_first = !result.overwrite && (now.resume == "auto" || found.start.resume == now.resume);
  return result;
}

RunDirectory inspect_run_directory(const std::string& path) {
  using State = RunDirectory::State;
  RunDirectory found;
  std::error_code error;
  const fs::path directory(path);
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    // A start that was killed while it wrote its input has written nothing else.
    if (is_own(name) && name != io::name_beside(input_name)) found.conflicts.push_back(name);
  }
  std::sort(found.conflicts.begin(), found.conflicts.end());
  if (!fs::exists(directory / status_name, error)) {
    found.state = found.conflicts.empty() ? State::fresh : State::foreign;
    return found;
  }
  found.status = status_of(directory);
  found.state = found.status == "finished" ? State::finished : State::unfinished;
  found.input = file_text(directory / input_name);
  found.start = start_of_text(file_text(directory / start_name));
  return found;
}

void require_writable(const std::string& path) {
  const fs::path existing = nearest_existing(path);
  std::error_code error;
  if (!fs::is_directory(existing, error))
    cannot("make the run directory", path, existing.string() + " is not a directory");
  if (::access(existing.c_str(), W_OK | X_OK) != 0) cannot("write into the run directory", path, std::strerror(errno));
}

std::string directory_conflict(const RunDirectory& found, const std::string& path, const ResolvedInput& resolved,
                               bool overwrite, bool resumes) {
  if (found.state == RunDirectory::State::fresh) return {};
  const std::string where = core::printable(path);
  if (found.state == RunDirectory::State::foreign) {
    return "the directory " + where + " holds " + core::listed(found.conflicts, "and", false) +
           ", which no run of bert_hpc wrote: set run.directory to another one.";
  }
  // A run that was killed while it began has left nothing to lose.
  if (overwrite || (found.state == RunDirectory::State::unfinished && found.conflicts.empty())) return {};
  std::string text = "the directory " + where + " holds a run that ";
  const bool finished = found.state == RunDirectory::State::finished;
  text += finished ? "is finished" : "is not finished";
  std::vector<KeyChange> changes = input_changes(found.input, resolved);
  const bool resumable = non_resumable(changes).empty();
  if (!finished && resumes) {
    changes = non_resumable(changes);
    if (changes.empty()) return {};
  }
  if (!changes.empty()) {
    constexpr std::size_t most = 5;
    const std::size_t more = changes.size() > most ? changes.size() - most : 0;
    changes.erase(changes.end() - static_cast<std::ptrdiff_t>(more), changes.end());
    text += ", and its input differs:";
    for (const KeyChange& change : changes) text += "\n     " + describe(change);
    if (more > 0) text += "\n     and " + std::to_string(more) + " more";
    text += "\n  Set";
  } else {
    text += ", with the same input: set";
  }
  text += " run.directory to another one, or start with --overwrite to replace its results.";
  // Only keys that may change have changed: the user probably wants to continue the training.
  if (finished && resumable && !changes.empty()) {
    text += " To continue training from one of its checkpoints, also set run.resume to that folder.";
  }
  return text;
}

void check_run_directory(const std::string& path, const ResolvedInput& resolved, bool overwrite, bool continues) {
  require_writable(path);
  const std::string why = directory_conflict(inspect_run_directory(path), path, resolved, overwrite, continues);
  if (!why.empty()) throw core::Error(core::ExitCode::input, why);
}

void note_start(const std::string& path, const RunStart& start) {
  io::write_text_file(path_in(path, start_name), "job " + start.job + "\nrestart " + std::to_string(start.restart) +
                                                     "\nresume " + start.resume + "\ncluster " + start.cluster + '\n');
}

void begin_run(const std::string& path, const std::string& resolved_input, const RunStart& start) {
  const fs::path directory(path), replaced = directory / replaced_name;
  try {
    fs::create_directories(directory);
    // First the status: from here on the directory holds an unfinished run, whenever this process dies.
    io::write_text_file(path_in(path, status_name), "running\n");
    fs::remove_all(replaced);
    fs::create_directory(replaced);
    const std::vector<fs::path> there(fs::directory_iterator(directory), {});
    for (const fs::path& path_there : there) {
      if (is_own(path_there.filename())) fs::rename(path_there, replaced / path_there.filename());
    }
    fs::remove_all(replaced);
  } catch (const fs::filesystem_error& error) {
    cannot("begin a run in", path, error.code().message());
  }
  note_start(path, start);
  io::write_text_file(path_in(path, input_name), resolved_input);
}

void continue_run(const std::string& path, const std::string& resolved_input, std::int64_t log_bytes) {
  const fs::path directory(path), log = directory / "log.txt";
  io::write_text_file(path_in(path, status_name), "running\n");
  io::write_text_file(path_in(path, input_name), resolved_input);
  std::error_code problem;
  const auto bytes = fs::file_size(log, problem);
  if (problem || static_cast<std::int64_t>(bytes) <= log_bytes) return;
  const core::Descriptor file(core::open_own_file(log.string(), O_WRONLY));
  if (!file.valid()) cannot("cut back", log.string(), core::why_not_own(errno));
  if (::ftruncate(file.get(), log_bytes) != 0) cannot("cut back", log.string(), std::strerror(errno));
}

void end_run(const std::string& path, RunEnd end) {
  const char* word = end == RunEnd::finished ? "finished\n" : end == RunEnd::stopped ? "stopped\n" : "failed\n";
  io::write_text_file(path_in(path, status_name), word);
}

void mark_failed(const std::string& path) {
  if (status_of(path) == "running") io::write_text_file_soon(path_in(path, status_name), "failed\n");
}

void mark_stopped(const std::string& path) {
  if (status_of(path) == "running") io::write_text_file_soon(path_in(path, status_name), "stopped\n");
}

}  // namespace bert_hpc::app
