#include "bert_hpc/io/run_lock.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>

#include "bert_hpc/core/environment.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/io/atomic_write.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "descriptor.hpp"

namespace bert_hpc::io {

namespace fs = std::filesystem;
using detail::Descriptor;
using detail::fail_with_errno;

namespace {

using core::ExitCode;
constexpr std::size_t most_bytes = 1 << 16;

std::string path_in(const std::string& directory) {
  return directory + "/.lock";
}

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

/// Start time of a process, to detect that its number is reused: field 22 of its stat, after the name in brackets. ""
/// for a process that does not exist, or is dead and not yet waited for by its parent.
std::string start_of(const std::string& pid) {
  const std::string stat = first_line("/proc/" + pid + "/stat");
  const std::size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return {};
  std::istringstream fields(stat.substr(bracket + 1));
  std::string state, field;
  fields >> state;
  for (int i = 4; i <= 22; ++i) fields >> field;
  return state == "Z" || state == "X" ? "" : field;
}

/// Process numbers are comparable between processes with the same text: boot of the machine and PID namespace.
std::string process_space() {
  std::error_code ignored;
  const std::string space = fs::read_symlink("/proc/self/ns/pid", ignored).string();
  return first_line("/proc/sys/kernel/random/boot_id") + ' ' + space;
}

using Fields = std::map<std::string, std::string>;

std::string text_of_ours(const std::string& program = {}) {
  const std::string pid = std::to_string(::getpid());
  return "program " + program + "\nhost " + host_name() + "\npid " + pid + "\nsince " + utc_now() + "\nbegan " +
         start_of(pid) + "\nspace " + process_space() + "\njob " + core::environment("SLURM_JOB_ID") + "\ncluster " +
         core::environment("SLURM_CLUSTER_NAME") + "\ntask " + core::environment("SLURM_ARRAY_TASK_ID") + "\nrestart " +
         std::to_string(std::atoi(core::environment("SLURM_RESTART_COUNT").c_str())) + "\n";
}

Fields fields_of(const std::string& text) {
  Fields fields;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t space = line.find(' ');
    if (space != std::string::npos) fields[line.substr(0, space)] = line.substr(space + 1);
  }
  return fields;
}

std::string holder(const Fields& fields) {
  const auto field = [&](const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() || found->second.empty() ? std::string("?") : core::printable(found->second, 80);
  };
  std::string text = "process " + field("pid") + " on " + field("host") + " since " + field("since");
  if (field("job") != "?") text += " (Slurm job " + field("job") + ")";
  return text;
}

/// True if the lock belongs to an earlier start of our job. Slurm restarts a job only once it considers the earlier
/// start ended. Locks of older versions lack these fields.
bool is_of_an_earlier_start(Fields theirs, Fields ours) {
  for (const char* name : {"job", "cluster", "task"}) {
    if (!theirs.contains(name) || theirs[name] != ours[name]) return false;
  }
  const std::string& restart = theirs["restart"];
  int before = 0;
  const auto [end, problem] = std::from_chars(restart.data(), restart.data() + restart.size(), before);
  const bool known = problem == std::errc{} && end == restart.data() + restart.size();
  return known && !ours["job"].empty() && before < std::atoi(ours["restart"].c_str());
}

enum class Holder { alive, gone, replaced, unknown };

Holder judge(Fields theirs) {
  Fields ours = fields_of(text_of_ours());
  if (theirs["space"].empty() || theirs["space"] != ours["space"] || theirs["host"] != ours["host"]) {
    return is_of_an_earlier_start(theirs, ours) ? Holder::replaced : Holder::unknown;
  }
  const std::string began = start_of(theirs["pid"]);
  return !began.empty() && began == theirs["began"] ? Holder::alive : Holder::gone;
}

/// The state of a lock at one moment.
struct Look {
  int error = 0;     ///< ENOENT: there is no lock; any other: unknown (ESTALE and EIO are transient)
  std::string sign;  ///< changes with every touch
  std::string text;
};

/// Opens the file each time: on NFS that asks the server, while stat() alone may return cached data for a minute.
/// Touches it if its text is `touched`: the file that was read, not one that has taken its name since.
Look look_at(const std::string& path, const std::string& touched = {}) {
  const Descriptor file(path, O_RDONLY);
  if (!file.valid()) return {.error = errno, .sign = {}, .text = {}};
  struct stat status {};
  std::string text(most_bytes, '\0');
  const bool good = ::fstat(file.get(), &status) == 0;
  const ssize_t bytes = good ? file.read_some(text.data(), text.size()) : -1;
  if (bytes < 0) return {.error = errno, .sign = {}, .text = {}};
  text.resize(static_cast<std::size_t>(bytes));
  if (!touched.empty() && text == touched) ::futimens(file.get(), nullptr);
  return {.error = 0,
          .sign = std::to_string(status.st_mtim.tv_sec) + '.' + std::to_string(status.st_mtim.tv_nsec) + ' ' +
                  std::to_string(status.st_ino),
          .text = std::move(text)};
}

std::optional<std::string> read_lock(const std::string& path) {
  Look look = look_at(path);
  if (look.error != 0) return std::nullopt;
  return std::move(look.text);
}

}  // namespace

struct RunLock::State {
  std::string path, text, took_over;
  Timing timing;
  User user;
  std::mutex mutex;
  std::condition_variable changed;
  bool ending = false;
  std::atomic<bool> lost = false;
  std::thread thread;

  /// False if there is a lock already.
  bool take() {
    text = text_of_ours(user.program);
    const std::string beside = path + '.' + host_name() + '.' + std::to_string(::getpid());
    ::unlink(beside.c_str());
    Descriptor file(beside, O_WRONLY | O_CREAT | O_EXCL);
    if (!file.valid()) fail_with_errno(ExitCode::files, "create", beside);
    const bool wrote = file.write_all(text.data(), text.size()) && ::fsync(file.get()) == 0 && file.close();
    if (!wrote) fail_with_errno(ExitCode::files, "write", beside);
    const bool linked = ::link(beside.c_str(), path.c_str()) == 0;
    const int reason = errno;
    // On NFS a reply may be lost, and link() then reports that the name exists although it has just made it.
    struct stat status {};
    const bool ours = linked || (::stat(beside.c_str(), &status) == 0 && status.st_nlink == 2);
    ::unlink(beside.c_str());
    errno = reason;
    if (!ours && reason != EEXIST) fail_with_errno(ExitCode::files, "lock", path);
    return ours;
  }

  /// Watches the lock for `stale`; true if its holder touches it.
  bool touched_while_watched() {
    Look before = look_at(path), now = before;
    const auto end = timing.clock->now() + timing.stale;
    while (now.error != ENOENT && timing.clock->now() < end) {
      if (before.error != 0) before = now;
      if (now.error == 0 && now.sign != before.sign) return true;
      timing.clock->pause(timing.touch / 5);
      now = look_at(path);
    }
    if (now.error == 0 || now.error == ENOENT) return now.error == 0 && now.sign != before.sign;
    errno = now.error;
    fail_with_errno(ExitCode::files, "look at", path);
  }

  /// Removes the stale lock; not a new one that was taken in between.
  void remove_stale(const std::string& found) {
    const std::string stale = path + ".stale." + host_name() + '.' + std::to_string(::getpid());
    if (read_lock(path) != found || std::rename(path.c_str(), stale.c_str()) != 0) return;
    const bool same = read_lock(stale) == found;
    if (!same) static_cast<void>(::link(stale.c_str(), path.c_str()));
    ::unlink(stale.c_str());
  }

  void acquire() {
    constexpr int attempts = 5;
    for (int i = 0; i < attempts; ++i) {
      if (take()) return;
      const std::optional<std::string> found = read_lock(path);
      if (!found) continue;
      const Fields fields = fields_of(*found);
      const Holder state = judge(fields);
      if (state == Holder::alive || (state == Holder::unknown && touched_while_watched())) break;
      took_over = "the lock of " + holder(fields) +
                  (state == Holder::replaced ? " is of an earlier start of this job, which Slurm has ended"
                                             : " was stale: that process is gone");
      remove_stale(*found);
    }
    Fields theirs = fields_of(read_lock(path).value_or(""));
    const std::string program = theirs["program"].empty() ? "run" : core::printable(theirs["program"], 40);
    throw core::Error(ExitCode::files, "another " + program + " is at work in '" +
                                           fs::path(path).parent_path().string() + "': " + holder(theirs) +
                                           ". Wait for it to end, or set " + user.key + " to another directory.");
  }

  void keep_touching() {
    std::unique_lock lock(mutex);
    bool missed = false;
    while (!changed.wait_for(lock, timing.touch, [this] { return ending; })) {
      const Look now = look_at(path, text);
      // A process that finds the lock not to be stale may hold it under another name for a moment.
      const bool missing = now.error == ENOENT;
      if ((now.error == 0 && now.text != text) || (missing && missed)) lost = true;
      missed = missing;
    }
  }

  void require() {
    const Look now = look_at(path);
    if (now.error == 0 && now.text != text) {
      lost = true;
      const Fields theirs = fields_of(now.text);
      const std::string why = is_of_an_earlier_start(fields_of(text), theirs)
                                  ? "a later start of this job by Slurm, which took this one for ended"
                                  : "as this run did not renew it for a while (its node hung, or it was suspended)";
      throw core::Error(ExitCode::files, "The lock of this run's directory was taken over by " + holder(theirs) + ", " +
                                             why + ": nothing more is written there.");
    }
    if (lost)
      throw core::Error(ExitCode::files,
                        "The lock of this run, '" + path + "', is gone: nothing more is written there.");
  }
};

RunLock::RunLock(const std::string& directory, const Timing& timing, const User& user)
    : state_(std::make_unique<State>()) {
  make_directories(directory, ExitCode::files);
  state_->path = path_in(directory);
  state_->timing = timing;
  state_->user = user;
  state_->acquire();
  state_->thread = std::thread([state = state_.get()] { state->keep_touching(); });
}

RunLock::~RunLock() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
  if (read_lock(state_->path) == state_->text) ::unlink(state_->path.c_str());
}

const std::string& RunLock::text() const {
  return state_->text;
}

bool RunLock::is_held(const std::string& directory, const std::string& text) {
  return read_lock(path_in(directory)) == text;
}

bool RunLock::lost() const {
  return state_->lost;
}

void RunLock::require() const {
  state_->require();
}

const std::string& RunLock::took_over() const {
  return state_->took_over;
}

}  // namespace bert_hpc::io
