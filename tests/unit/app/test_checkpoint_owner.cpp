// RUN/checkpoints as a link: whose they are.
#include "app/run/checkpoint_owner.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::app {
namespace {

namespace fs = std::filesystem;

struct Scratch {
  fs::path root = fs::canonical(fs::temp_directory_path()) / ("bert_hpc_owner_" + std::to_string(::getpid()));
  Scratch() { fs::create_directories(root / "disk"); }
  ~Scratch() { fs::remove_all(root); }
  std::string run(const std::string& name) const {
    fs::create_directories(root / name);
    std::ofstream(root / name / ".status") << "running\n";
    return (root / name).string();
  }
  void link(const std::string& name, const fs::path& to) const {
    fs::create_directory_symlink(root / to, root / name / "checkpoints");
  }
};

}  // namespace

TEST_CASE("checkpoints in the run's own directory are its own, linked or not") {
  const Scratch scratch;
  const std::string run = scratch.run("run");
  CHECK(other_owner_of_checkpoints(run).empty());
  CHECK_NOTHROW(own_checkpoints(run));  // nothing is there
  fs::create_directories(scratch.root / "run" / "real");
  scratch.link("run", "run/real");
  CHECK(other_owner_of_checkpoints(run).empty());
  own_checkpoints(run);
  CHECK(fs::is_empty(scratch.root / "run" / "real"));
}

TEST_CASE("a link to another run's checkpoints is refused as long as that run is there") {
  const Scratch scratch;
  const std::string run = scratch.run("run"), other = scratch.run("other");
  fs::create_directories(scratch.root / "other" / "checkpoints");
  scratch.link("run", "other/checkpoints");
  CHECK(other_owner_of_checkpoints(run) == other);
  CHECK_THROWS_AS(check_checkpoint_owner(run), core::Error);
  CHECK(other_owner_of_checkpoints(other).empty());
  fs::remove(scratch.root / "other" / ".status");
  CHECK(other_owner_of_checkpoints(run).empty());
  CHECK_NOTHROW(check_checkpoint_owner(run));
}

TEST_CASE("a pipe instead of the owner's mark is reported without waiting for it") {
  const Scratch scratch;
  const std::string run = scratch.run("run");
  scratch.link("run", "disk");
  REQUIRE(mkfifo((scratch.root / "disk" / ".run").c_str(), 0600) == 0);
  CHECK_THROWS_AS(check_checkpoint_owner(run), core::Error);
}

TEST_CASE("a folder elsewhere is the run's that wrote there first, until it leaves") {
  const Scratch scratch;
  const std::string run = scratch.run("run"), other = scratch.run("other");
  scratch.link("run", "disk");
  scratch.link("other", "disk");
  CHECK(other_owner_of_checkpoints(other).empty());
  own_checkpoints(run);
  CHECK(other_owner_of_checkpoints(run).empty());
  CHECK(other_owner_of_checkpoints(other) == run);
  fs::rename(run, scratch.root / "moved");  // with its link
  CHECK(other_owner_of_checkpoints((scratch.root / "moved").string()).empty());
  own_checkpoints((scratch.root / "moved").string());
  CHECK(other_owner_of_checkpoints(other) == (scratch.root / "moved").string());
  fs::remove(scratch.root / "moved" / "checkpoints");
  CHECK(other_owner_of_checkpoints(other).empty());
}

}  // namespace bert_hpc::app
