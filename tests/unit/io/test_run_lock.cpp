#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/io/run_lock.hpp"
#include "support/manual_clock.hpp"
#include "support/temporary_directory.hpp"
#include "support/wait_until.hpp"

using namespace bert_hpc::io;
using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;
using bert_hpc::test::ManualClock;
using bert_hpc::test::TemporaryDirectory;
using bert_hpc::test::wait_until;

namespace fs = std::filesystem;

namespace {

/// Renews a lock often. No test lets it watch another holder's lock by the system's clock.
const RunLock::Timing quick{.touch = 5ms, .stale = 1h};

/// Watches another holder's lock by this clock: 50 looks until the lock is stale.
RunLock::Timing watching(ManualClock& clock) {
  return {.touch = 50ms, .stale = 500ms, .clock = &clock};
}

/// The error of a run that tries to take the lock; "taken" if it succeeds.
std::string refused(const std::string& directory, const RunLock::Timing& timing = quick) {
  try {
    const RunLock lock(directory, timing);
  } catch (const bert_hpc::core::Error& error) {
    return error.what();
  }
  return "taken";
}

/// Touches the file: its time becomes another one. Returns 1.
int touch(const std::string& path, int seconds) {
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, {.tv_sec = 1000 + seconds, .tv_nsec = 0}};
  return utimensat(AT_FDCWD, path.c_str(), times, 0) == 0 ? 1 : 0;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at != std::string::npos) text.replace(at, text.find('\n', at) - at, to);
  return text;
}

/// Slurm's environment variables of one start of a job; unset at the end of its life.
struct SlurmStart {
  SlurmStart(const char* job, const char* restart) {
    setenv("SLURM_JOB_ID", job, 1);
    setenv("SLURM_RESTART_COUNT", restart, 1);
  }
  ~SlurmStart() {
    unsetenv("SLURM_JOB_ID");
    unsetenv("SLURM_RESTART_COUNT");
  }
  SlurmStart(const SlurmStart&) = delete;
  SlurmStart& operator=(const SlurmStart&) = delete;
};

}  // namespace

TEST_CASE("one run at a time holds a directory, and gives it back") {
  const TemporaryDirectory directory;
  const std::string run = directory / "run";
  {
    const RunLock lock(run, quick);
    CHECK(lock.took_over().empty());
    const std::string why = refused(run);
    CHECK_THAT(why, ContainsSubstring("another run is at work in"));
    CHECK_THAT(why, ContainsSubstring("process " + std::to_string(getpid()) + " on " + host_name() + " since 20"));
    // Nothing but the lock itself is left lying about.
    CHECK(std::distance(fs::directory_iterator(run), fs::directory_iterator()) == 1);
  }
  CHECK(fs::is_empty(run));
  CHECK(refused(run) == "taken");
}

TEST_CASE("the lock of a process of this host that is gone is taken over at once") {
  const TemporaryDirectory directory;
  const pid_t child = fork();
  if (child == 0) {
    new RunLock(directory.path(), quick);
    _exit(0);  // like a kill: the lock is not released
  }
  siginfo_t ended;
  REQUIRE(waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) == 0);  // dead, and still in the table
  REQUIRE(fs::exists(directory / ".lock"));
  const std::string text = bert_hpc::test::file_bytes(directory / ".lock");
  ManualClock clock;
  for (const bool waited_for : {false, true}) {
    if (waited_for) waitpid(child, nullptr, 0);
    bert_hpc::test::write_bytes(directory / ".lock", text);
    const RunLock lock(directory.path(), watching(clock));
    CHECK_THAT(lock.took_over(), ContainsSubstring("process " + std::to_string(child)));
  }
  CHECK(clock.pauses() == 0);  // it is not watched
}

TEST_CASE("a process number that is used again is no sign that a run lives") {
  const TemporaryDirectory directory;
  {
    const RunLock lock(directory.path(), quick);
    const std::string text = bert_hpc::test::file_bytes(directory / ".lock");
    bert_hpc::test::write_bytes(directory / "copy", replaced(text, "began ", "began 12345"));
  }
  fs::rename(directory / "copy", directory / ".lock");
  CHECK(refused(directory.path()) == "taken");
}

TEST_CASE("a lock of another host is stale when no process renews it, and not before") {
  const TemporaryDirectory directory;
  std::string foreign;
  {
    const RunLock lock(directory.path(), quick);
    foreign = replaced(bert_hpc::test::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  bert_hpc::test::write_bytes(directory / ".lock", foreign);
  // Its holder touches it in the first, a middle or the last pause of the watch.
  for (const int touching : {1, 20, 50}) {
    ManualClock clock;
    int touched = 0;
    clock.during_pause = [&](int pause) {
      if (pause == touching) touched = touch(directory / ".lock", pause);
    };
    CHECK_THAT(refused(directory.path(), watching(clock)), ContainsSubstring("on elsewhere since"));
    CHECK(touched == 1);
    CHECK(clock.pauses() == touching);
  }
  ManualClock clock;
  const RunLock lock(directory.path(), watching(clock));
  CHECK(clock.passed() == 500ms);
  CHECK_THAT(lock.took_over(), ContainsSubstring("on elsewhere"));
}

TEST_CASE("a requeued job takes over from its earlier start at once, but not from one that is seen to live") {
  const TemporaryDirectory directory;
  const SlurmStart first("77", "");
  const RunLock lock(directory.path(), quick);
  const SlurmStart second("77", "1");
  CHECK_THAT(refused(directory.path()), ContainsSubstring("another run is at work"));
  bert_hpc::test::write_bytes(directory / "elsewhere",
                              replaced(bert_hpc::test::file_bytes(directory / ".lock"), "host ", "host elsewhere"));
  fs::rename(directory / "elsewhere", directory / ".lock");
  ManualClock clock;
  const RunLock again(directory.path(), watching(clock));
  CHECK(clock.pauses() == 0);
  CHECK_THAT(again.took_over(), ContainsSubstring("on elsewhere since"));
  CHECK_THAT(again.took_over(), ContainsSubstring("(Slurm job 77) is of an earlier start of this job"));
  // Where Slurm was wrong, and it lives, it learns of it, and why.
  CHECK_THROWS_WITH(lock.require(), ContainsSubstring("taken over by process " + std::to_string(getpid())) &&
                                        ContainsSubstring("a later start of this job by Slurm"));
}

TEST_CASE("the lock of another job, task, cluster or version, or of no earlier start, is watched before it is taken") {
  const TemporaryDirectory directory;
  const SlurmStart now("77", "2");
  std::string text;
  {
    const RunLock lock(directory.path(), quick);
    text = replaced(bert_hpc::test::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  const auto lock_time = [&](const std::string& theirs) {
    bert_hpc::test::write_bytes(directory / ".lock", theirs);
    ManualClock clock;
    const RunLock lock(directory.path(), watching(clock));
    CHECK(!lock.took_over().empty());
    return clock.passed();
  };
  const std::string earlier = replaced(text, "restart ", "restart 1");
  CHECK(lock_time(earlier) == 0ms);
  for (const auto& theirs :
       {text, replaced(text, "restart ", "restart 3"), replaced(text, "restart ", "restart x"),
        text.substr(0, text.find("restart ")), replaced(earlier, "job ", "job 78"), replaced(earlier, "job ", "job "),
        replaced(earlier, "task ", "task 1"), replaced(earlier, "cluster ", "cluster other")}) {
    CAPTURE(theirs);
    CHECK(lock_time(theirs) == 500ms);
  }
  const SlurmStart none("", "2");  // no job at all
  CHECK(lock_time(replaced(earlier, "job ", "job ")) == 500ms);
}

TEST_CASE("a lock that cannot be looked at for a moment is not one that was given back") {
  const TemporaryDirectory directory;
  std::string foreign;
  {
    const RunLock lock(directory.path(), quick);
    foreign = replaced(bert_hpc::test::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  bert_hpc::test::write_bytes(directory / ".lock", foreign);
  // Opening it fails (ELOOP) and succeeds, alternating from one look to the next; it is touched in one pause of 40.
  const std::string path = directory / ".lock", loop = directory / "loop";
  REQUIRE(symlink("loop", loop.c_str()) == 0);
  const auto exchange = [&] {
    REQUIRE(syscall(SYS_renameat2, AT_FDCWD, path.c_str(), AT_FDCWD, loop.c_str(), 2U) == 0);  // RENAME_EXCHANGE
  };
  for (const int touching : {39, 40}) {
    for (int every : {1, 2, 3}) {
      ManualClock clock;
      bool exchanged = false;
      clock.during_pause = [&](int pause) {
        if (pause == touching) touch(exchanged ? loop : path, pause + every);
        if (pause % every == 0) {
          exchange();
          exchanged = !exchanged;
        }
      };
      CAPTURE(touching, every);
      CHECK_THAT(refused(directory.path(), watching(clock)), ContainsSubstring("another run is at work"));
      CHECK(clock.pauses() >= touching);
      CHECK(clock.passed() < 500ms);
      if (exchanged) exchange();
    }
  }
  CHECK(bert_hpc::test::file_bytes(path) == foreign);
}

TEST_CASE("a lock that cannot be looked at for the whole watch is an error") {
  const TemporaryDirectory directory;
  std::string foreign;
  {
    const RunLock lock(directory.path(), quick);
    foreign = replaced(bert_hpc::test::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  const std::string path = directory / ".lock";
  bert_hpc::test::write_bytes(path, foreign);
  ManualClock clock;
  clock.during_pause = [&](int pause) {
    if (pause != 1) return;
    fs::remove(path);
    REQUIRE(symlink(".lock", path.c_str()) == 0);
  };
  CHECK_THAT(refused(directory.path(), watching(clock)), ContainsSubstring("Cannot look at"));
  CHECK(clock.passed() == 500ms);
}

TEST_CASE("the holder of a lock renews it, and releases only its own lock") {
  const TemporaryDirectory directory;
  const auto touched = [&] { return fs::last_write_time(directory / ".lock"); };
  {
    const RunLock lock(directory.path(), quick);
    const auto before = touched();
    REQUIRE(wait_until([&] { return touched() > before; }));
    CHECK_NOTHROW(lock.require());
    CHECK(!lock.lost());
    bert_hpc::test::write_bytes(directory / ".lock", "host other\npid 1\n");
    CHECK_THROWS_WITH(lock.require(), ContainsSubstring("taken over by process 1 on other"));
    CHECK(lock.lost());
  }
  CHECK(fs::exists(directory / ".lock"));
}

TEST_CASE("a run that has lost its lock notices at the next renewal, and does not touch the lock") {
  const TemporaryDirectory directory;
  for (const bool removed : {false, true}) {
    const RunLock lock(directory.path(), quick);
    for (int renewal = 0; renewal < 5; ++renewal) {
      const auto last = fs::last_write_time(directory / ".lock");
      REQUIRE(wait_until([&] { return fs::last_write_time(directory / ".lock") != last; }));
    }
    CHECK(!lock.lost());
    bert_hpc::test::write_bytes(directory / "other", "host other\npid 1\n");
    fs::rename(directory / "other", directory / ".lock");
    const auto before = fs::last_write_time(directory / ".lock");
    if (removed) fs::remove(directory / ".lock");
    REQUIRE(wait_until([&] { return lock.lost(); }));
    CHECK_THROWS_WITH(lock.require(), ContainsSubstring(removed ? "is gone" : "did not renew it"));
    if (removed) continue;
    CHECK(fs::last_write_time(directory / ".lock") == before);
    fs::remove(directory / ".lock");
  }
}

TEST_CASE("one of many processes that try a stale lock together gets it") {
  const TemporaryDirectory directory;
  bert_hpc::test::write_bytes(directory / ".lock", "host gone\npid 1\n");
  // Each process reports whether it holds the lock, and keeps it until all have reported.
  int reports[2], all_done[2];
  REQUIRE(pipe(reports) == 0);
  REQUIRE(pipe(all_done) == 0);
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    close(all_done[1]);
    const auto report = [&](char word) { static_cast<void>(!write(reports[1], &word, 1)); };
    try {
      const RunLock lock(directory.path(), RunLock::Timing{.touch = 20ms, .stale = 300ms});
      report('h');
      char none = 0;
      static_cast<void>(!read(all_done[0], &none, 1));  // returns when the last writer closes
    } catch (const bert_hpc::core::Error&) {
      report('r');
    }
    _exit(0);
  }
  close(reports[1]);
  int holders = 0;
  for (std::size_t i = 0; i < children.size(); ++i) {
    char word = 0;
    REQUIRE(read(reports[0], &word, 1) == 1);
    if (word == 'h') ++holders;
  }
  close(all_done[1]);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  close(reports[0]);
  close(all_done[0]);
  CHECK(holders == 1);
}
