#include "bert_hpc/app/run/failure_mark.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "bert_hpc/app/run/run_directory.hpp"
#include "bert_hpc/io/run_lock.hpp"

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
  REQUIRE(mkfifo((scratch.run + "/.lock").c_str(), 0600) == 0);  // opening it hangs
  const auto begin = std::chrono::steady_clock::now();
  mark.leave();
  const auto taken = std::chrono::steady_clock::now() - begin;
  CHECK(taken >= std::chrono::milliseconds(900));
  CHECK(taken < std::chrono::seconds(10));
  close(open((scratch.run + "/.lock").c_str(), O_WRONLY | O_NONBLOCK));  // the disk is back: its thread ends
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
