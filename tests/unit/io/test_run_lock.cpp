#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <memory>
#include <thread>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/provenance.hpp"
#include "bert_hpc/io/run_lock.hpp"
#include "support/temporary_directory.hpp"

using namespace bert_hpc::io;
using Catch::Matchers::ContainsSubstring;
using namespace std::chrono_literals;
using test_support::TemporaryDirectory;

namespace fs = std::filesystem;

namespace {

// Signs of life ten times within the time after which there should have been one, on a busy machine too.
const RunLock::Timing quick{.touch = 30ms, .stale = 1500ms};

std::string refused(const std::string& directory) {
  try {
    const RunLock lock(directory, quick);
  } catch (const bert_hpc::core::Error& error) {
    return error.what();
  }
  return "taken";
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
  const std::string text = test_support::file_bytes(directory / ".lock");
  const auto begin = std::chrono::steady_clock::now();
  for (const bool waited_for : {false, true}) {
    if (waited_for) waitpid(child, nullptr, 0);
    test_support::write_bytes(directory / ".lock", text);
    const RunLock lock(directory.path(), RunLock::Timing{.touch = 30ms, .stale = 60s});
    CHECK_THAT(lock.took_over(), ContainsSubstring("process " + std::to_string(child)));
  }
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
}

TEST_CASE("a process number that is used again is no sign that a run lives") {
  const TemporaryDirectory directory;
  {
    const RunLock lock(directory.path(), quick);
    const std::string text = test_support::file_bytes(directory / ".lock");
    test_support::write_bytes(directory / "copy", replaced(text, "began ", "began 12345"));
  }
  fs::rename(directory / "copy", directory / ".lock");
  CHECK(refused(directory.path()) == "taken");
}

TEST_CASE("a lock of another host is stale when no process renews it, and not before") {
  const TemporaryDirectory directory;
  std::string foreign;
  {
    const RunLock lock(directory.path(), quick);
    foreign = replaced(test_support::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  test_support::write_bytes(directory / ".lock", foreign);
  std::atomic<bool> alive = true;
  std::thread holder([&] {
    while (alive) {
      utimensat(AT_FDCWD, (directory / ".lock").c_str(), nullptr, 0);
      std::this_thread::sleep_for(20ms);
    }
  });
  CHECK_THAT(refused(directory.path()), ContainsSubstring("on elsewhere since"));
  alive = false;
  holder.join();
  const auto begin = std::chrono::steady_clock::now();
  const RunLock lock(directory.path(), quick);
  CHECK(std::chrono::steady_clock::now() - begin >= quick.stale);
  CHECK_THAT(lock.took_over(), ContainsSubstring("on elsewhere"));
}

TEST_CASE("a requeued job takes over from its earlier start at once, but not from one that is seen to live") {
  const TemporaryDirectory directory;
  const SlurmStart first("77", "");
  const RunLock lock(directory.path(), quick);
  const SlurmStart second("77", "1");
  CHECK_THAT(refused(directory.path()), ContainsSubstring("another run is at work"));
  test_support::write_bytes(directory / "elsewhere",
                            replaced(test_support::file_bytes(directory / ".lock"), "host ", "host elsewhere"));
  fs::rename(directory / "elsewhere", directory / ".lock");
  const auto begin = std::chrono::steady_clock::now();
  const RunLock again(directory.path(), RunLock::Timing{.touch = 30ms, .stale = 60s});
  CHECK(std::chrono::steady_clock::now() - begin < 30s);
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
    text = replaced(test_support::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  const auto lock_time = [&](const std::string& theirs, std::chrono::milliseconds stale) {
    test_support::write_bytes(directory / ".lock", theirs);
    const auto begin = std::chrono::steady_clock::now();
    const RunLock lock(directory.path(), RunLock::Timing{.touch = 30ms, .stale = stale});
    CHECK(!lock.took_over().empty());
    return std::chrono::steady_clock::now() - begin;
  };
  const std::string earlier = replaced(text, "restart ", "restart 1");
  CHECK(lock_time(earlier, 60s) < 30s);
  for (const auto& theirs :
       {text, replaced(text, "restart ", "restart 3"), replaced(text, "restart ", "restart x"),
        text.substr(0, text.find("restart ")), replaced(earlier, "job ", "job 78"), replaced(earlier, "job ", "job "),
        replaced(earlier, "task ", "task 1"), replaced(earlier, "cluster ", "cluster other")}) {
    CAPTURE(theirs);
    CHECK(lock_time(theirs, 300ms) >= 300ms);
  }
  const SlurmStart none("", "2");  // no job at all
  CHECK(lock_time(replaced(earlier, "job ", "job "), 300ms) >= 300ms);
}

TEST_CASE("a lock that cannot be looked at for a moment is not one that was given back") {
  const TemporaryDirectory directory;
  std::string foreign;
  {
    const RunLock lock(directory.path(), quick);
    foreign = replaced(test_support::file_bytes(directory / ".lock"), "host ", "host elsewhere");
  }
  test_support::write_bytes(directory / ".lock", foreign);
  // Opening it fails (ELOOP) and succeeds in turns; it is touched rarely.
  const std::string path = directory / ".lock", aside = directory / "aside";
  REQUIRE(symlink("aside", aside.c_str()) == 0);
  std::atomic<bool> alive = true;
  std::thread holder([&] {
    for (int i = 0; alive; ++i) {
      if (i % 20 == 19) utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW);
      for (int turn = 0; turn < 2; ++turn) {
        syscall(SYS_renameat2, AT_FDCWD, path.c_str(), AT_FDCWD, aside.c_str(), 2U);  // RENAME_EXCHANGE
        std::this_thread::sleep_for(4ms);
      }
    }
  });
  for (int i = 0; i < 20; ++i) CHECK_THAT(refused(directory.path()), ContainsSubstring("another run is at work"));
  alive = false;
  holder.join();
  CHECK(test_support::file_bytes(path) == foreign);
}

TEST_CASE("the holder of a lock renews it, and releases only its own lock") {
  const TemporaryDirectory directory;
  const auto touched = [&] { return fs::last_write_time(directory / ".lock"); };
  {
    const RunLock lock(directory.path(), quick);
    const auto before = touched();
    for (int i = 0; i < 200 && touched() == before; ++i) std::this_thread::sleep_for(10ms);
    CHECK(touched() > before);
    CHECK_NOTHROW(lock.require());
    CHECK(!lock.lost());
    test_support::write_bytes(directory / ".lock", "host other\npid 1\n");
    CHECK_THROWS_WITH(lock.require(), ContainsSubstring("taken over by process 1 on other"));
    CHECK(lock.lost());
  }
  CHECK(fs::exists(directory / ".lock"));
}

TEST_CASE("a run that has lost its lock notices at the next renewal, and does not touch the lock") {
  const TemporaryDirectory directory;
  for (const bool removed : {false, true}) {
    const RunLock lock(directory.path(), quick);
    std::this_thread::sleep_for(5 * quick.touch);
    CHECK(!lock.lost());
    test_support::write_bytes(directory / "other", "host other\npid 1\n");
    fs::rename(directory / "other", directory / ".lock");
    const auto before = fs::last_write_time(directory / ".lock");
    if (removed) fs::remove(directory / ".lock");
    for (int i = 0; i < 300 && !lock.lost(); ++i) std::this_thread::sleep_for(10ms);
    CHECK(lock.lost());
    CHECK_THROWS_WITH(lock.require(), ContainsSubstring(removed ? "is gone" : "did not renew it"));
    if (removed) continue;
    CHECK(fs::last_write_time(directory / ".lock") == before);
    fs::remove(directory / ".lock");
  }
}

TEST_CASE("one of many processes that try a stale lock together gets it") {
  const TemporaryDirectory directory;
  test_support::write_bytes(directory / ".lock", "host gone\npid 1\n");
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    int status = 1;
    try {
      const RunLock lock(directory.path(), RunLock::Timing{.touch = 20ms, .stale = 300ms});
      std::this_thread::sleep_for(3s);
      status = 0;
    } catch (const bert_hpc::core::Error&) {
    }
    _exit(status);
  }
  int holders = 0;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) ++holders;
  }
  CHECK(holders == 1);
}
