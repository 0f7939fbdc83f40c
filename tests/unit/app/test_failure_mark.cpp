#include "app/run/failure_mark.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "app/run/run_directory.hpp"
#include "bert_hpc/io/run_lock.hpp"
#include "support/wait_until.hpp"

using namespace bert_hpc::app;
using bert_hpc::io::RunLock;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  fs::path root = fs::temp_directory_path() / ("bert_hpc_mark_" + std::to_string(getpid()));
  std::string run = (root / "run").string();
  Scratch() {
    fs::remove_all(root);
    begin_run(run, "");
  }
  ~Scratch() { fs::remove_all(root); }
  std::string status() const { return inspect_run_directory(run).status; }
};

}  // namespace

TEST_CASE("a rank that ends all leaves the status failed, and the lock") {
  const Scratch scratch;
  const RunLock lock(scratch.run);
  FailureMark mark;
  mark.leave();
  CHECK(scratch.status() == "running");  // no run has begun, for all that it knows
  mark.set(scratch.run, lock.text());
  mark.leave();
  CHECK(scratch.status() == "failed");
  CHECK(RunLock::is_held(scratch.run, lock.text()));
  CHECK(!fs::exists(scratch.run + "/.status.partial"));
}

TEST_CASE("a run that had ended keeps its status") {
  const Scratch scratch;
  const RunLock lock(scratch.run);
  FailureMark mark;
  mark.set(scratch.run, lock.text());
  for (const auto& [end, word] : {std::pair{RunEnd::finished, "finished"}, std::pair{RunEnd::stopped, "stopped"}}) {
    end_run(scratch.run, end);
    mark.leave();
    CHECK(scratch.status() == word);
  }
}

TEST_CASE("a run that another process has started there since is not marked as failed") {
  const Scratch scratch;
  FailureMark mark;
  {
    const RunLock lock(scratch.run);
    mark.set(scratch.run, lock.text());
  }
  mark.leave();
  CHECK(scratch.status() == "running");  // given back
  std::ofstream(scratch.run + "/.lock") << "host elsewhere\npid 1\n";
  mark.leave();
  CHECK(scratch.status() == "running");
}

TEST_CASE("the end does not wait for a disk that hangs") {
  const Scratch scratch;
  FailureMark mark;
  mark.set(scratch.run, "a lock's text");
  const std::string lock = scratch.run + "/.lock";
  REQUIRE(mkfifo(lock.c_str(), 0600) == 0);  // opening it hangs
  mark.leave(std::chrono::milliseconds(10));
  CHECK(scratch.status() == "running");
  // The disk is back: the thread of the mark ends. It may not have opened the file yet.
  int writer = -1;
  REQUIRE(bert_hpc::test::wait_until([&] { return (writer = open(lock.c_str(), O_WRONLY | O_NONBLOCK)) >= 0; }));
  close(writer);
}

TEST_CASE("the end waits a while for a slow disk") {
  const Scratch scratch;
  FailureMark mark;
  const std::string lock = scratch.run + "/.lock", text = "a lock's text";
  mark.set(scratch.run, text);
  REQUIRE(mkfifo(lock.c_str(), 0600) == 0);
  std::thread disk([&] {
    const int writer = open(lock.c_str(), O_WRONLY);  // until it is read
    static_cast<void>(!write(writer, text.data(), text.size()));
    close(writer);
  });
  mark.leave(std::chrono::hours(1));
  CHECK(scratch.status() == "failed");
  disk.join();
}

TEST_CASE("a directory that is gone does not keep a rank from ending") {
  FailureMark mark;
  {
    const Scratch scratch;
    const RunLock lock(scratch.run);
    mark.set(scratch.run, lock.text());
  }
  mark.leave();
  SUCCEED();
}
