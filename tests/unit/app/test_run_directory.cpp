#include "app/run/run_directory.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <filesystem>
#include <fstream>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

using namespace bert_hpc::app;
using bert_hpc::core::Error;
using bert_hpc::core::ExitCode;
using Catch::Matchers::ContainsSubstring;
namespace fs = std::filesystem;

namespace {

struct Scratch {
  fs::path root = fs::temp_directory_path() / ("bert_hpc_run_" + std::to_string(getpid()));
  std::string run = (root / "a" / "run").string();
  Scratch() { fs::remove_all(root); }
  ~Scratch() { fs::remove_all(root); }
  void put(const std::string& name) const { std::ofstream(fs::path(run) / name) << "x"; }
  bool has(const std::string& name) const { return fs::exists(fs::path(run) / name); }
};

const std::string input = "[run]\ndirectory = \"r\"\nseed = 1\n\n[batch]\nglobal = 32\n";
const std::string other = "[run]\ndirectory = \"s\"\nseed = 1\n\n[batch]\nglobal = 64\nmicro = 2\n";

ExitCode code_of(const std::string& path, const std::string& resolved, bool overwrite, bool continues = false) {
  try {
    check_run_directory(path, resolved, overwrite, continues);
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::success;
}

}  // namespace

TEST_CASE("a run begins in a new directory and leaves its state there") {
  Scratch scratch;
  CHECK(code_of(scratch.run, input, false) == ExitCode::success);
  CHECK(!fs::exists(scratch.root));
  begin_run(scratch.run, input);
  CHECK(inspect_run_directory(scratch.run).state == RunDirectory::State::unfinished);
  CHECK(inspect_run_directory(scratch.run).input == input);
  end_run(scratch.run, RunEnd::stopped);
  CHECK(inspect_run_directory(scratch.run).status == "stopped");
  end_run(scratch.run, RunEnd::finished);
  CHECK(inspect_run_directory(scratch.run).state == RunDirectory::State::finished);
}

TEST_CASE("earlier results are refused, or replaced once the new run begins") {
  Scratch scratch;
  begin_run(scratch.run, input);
  scratch.put("metrics.h5");
  scratch.put("notes.txt");
  fs::create_directories(fs::path(scratch.run) / "model");
  end_run(scratch.run, RunEnd::finished);
  CHECK(code_of(scratch.run, input, false) == ExitCode::input);
  CHECK(code_of(scratch.run, input, true) == ExitCode::success);
  CHECK(scratch.has("metrics.h5"));
  begin_run(scratch.run, other);
  CHECK(!scratch.has("metrics.h5"));
  CHECK(!scratch.has("model"));
  CHECK(!scratch.has(".replaced"));
  CHECK(scratch.has("notes.txt"));
  CHECK(inspect_run_directory(scratch.run).input == other);
}

TEST_CASE("a run that was killed while it began is begun again") {
  Scratch scratch;
  begin_run(scratch.run, input);
  fs::rename(
      fs::path(scratch.run) / "input.toml",
      fs::path(scratch.run) / bert_hpc::io::name_beside("input.toml"));  // the state until the input is on the disk
  CHECK(inspect_run_directory(scratch.run).state == RunDirectory::State::unfinished);
  CHECK(code_of(scratch.run, input, false, true) == ExitCode::success);
  begin_run(scratch.run, input);
  CHECK(inspect_run_directory(scratch.run).input == input);
  CHECK(!scratch.has(bert_hpc::io::name_beside("input.toml")));
}

TEST_CASE("predictions of any task, and what a killed run left of them, go as another run begins") {
  Scratch scratch;
  begin_run(scratch.run, input);
  const std::vector<std::string> names = {"predictions.h5",  "predictions.csv",   "predictions.json",
                                          "predictions.tsv", "predictions.conll", "nbest_predictions.json",
                                          "null_odds.json",  "run.trec",          "predictions.h5.partial"};
  for (const std::string& name : names) scratch.put(name);
  scratch.put("notes.partial");
  end_run(scratch.run, RunEnd::failed);
  begin_run(scratch.run, other);
  for (const std::string& name : names) {
    INFO(name);
    CHECK(!scratch.has(name));
  }
  CHECK(scratch.has("notes.partial"));
}

TEST_CASE("foreign files are never overwritten, unrelated ones do not matter") {
  Scratch scratch;
  fs::create_directories(scratch.run);
  scratch.put("slurm.out");
  CHECK(code_of(scratch.run, input, false) == ExitCode::success);
  scratch.put("metrics.h5");
  CHECK(code_of(scratch.run, input, false) == ExitCode::input);
  CHECK(code_of(scratch.run, input, true) == ExitCode::input);
  CHECK_THAT(directory_conflict(inspect_run_directory(scratch.run), scratch.run, input, true, true),
             ContainsSubstring("holds metrics.h5, which no run of bert_hpc wrote"));
}

TEST_CASE("files of a run's earlier metrics are recognised; files with similar names are not") {
  Scratch scratch;
  fs::create_directories(scratch.run);
  const std::vector<std::string> others = {"metrics.before-step-notes.txt",    "metrics.before-step-.h5",
                                           "metrics.before-step-3251.h5.copy", "metrics.before-step-3251-.h5",
                                           "metrics.before-step-3251-a.h5",    "my-metrics.before-step-3251.h5"};
  for (const std::string& name : others) scratch.put(name);
  CHECK(code_of(scratch.run, input, false) == ExitCode::success);
  const std::vector<std::string> kept = {"metrics.before-step-3251-2.h5", "metrics.before-step-3251.h5"};
  for (const std::string& name : kept) scratch.put(name);
  CHECK(inspect_run_directory(scratch.run).conflicts == kept);
  CHECK(code_of(scratch.run, input, false) == ExitCode::input);
  begin_run(scratch.run, input);
  for (const std::string& name : others) CHECK(scratch.has(name));
  for (const std::string& name : kept) CHECK(!scratch.has(name));
}

TEST_CASE("a pipe, a device and a huge file instead of a run's notes are reported, neither waited for nor read") {
  Scratch scratch;
  begin_run(scratch.run, input);
  for (const char* name : {".status", ".start", "input.toml"}) {
    const fs::path file = fs::path(scratch.run) / name, kept = fs::path(scratch.run) / "kept";
    fs::rename(file, kept);
    const auto refused = [&](const char* why) {
      CHECK_THROWS_WITH(inspect_run_directory(scratch.run), ContainsSubstring(name) && ContainsSubstring(why));
      fs::remove(file);
    };
    REQUIRE(mkfifo(file.c_str(), 0600) == 0);
    refused("it is not a regular file");
    fs::create_symlink("/dev/zero", file);
    refused("it is not a regular file");
    std::ofstream(file).close();
    fs::resize_file(file, std::uintmax_t{1} << 40);
    refused("it is longer than");
    fs::rename(kept, file);
  }
  CHECK(inspect_run_directory(scratch.run).status == "running");
}

TEST_CASE("a refusal names the differences and the remedy") {
  RunDirectory found{RunDirectory::State::finished, "finished", input, {}, {}};
  const std::string text = directory_conflict(found, "out", other, false, true);
  CHECK_THAT(text, ContainsSubstring("holds a run that is finished, and its input differs:"));
  CHECK_THAT(text, ContainsSubstring("batch.global: 32 there, 64 here"));
  CHECK_THAT(text, ContainsSubstring("batch.micro: not given there, 2 here"));
  CHECK_THAT(text, !ContainsSubstring("run.directory: "));
  CHECK_THAT(text, ContainsSubstring("--overwrite") && !ContainsSubstring("train on"));
  CHECK_THAT(directory_conflict(found, "out", input + "\n[schedule]\nsteps = 9\n", false, true),
             ContainsSubstring("run.resume"));
  CHECK_THAT(directory_conflict(found, "out", input, false, true), !ContainsSubstring("run.resume"));
  CHECK(directory_conflict(found, "out", other, true, false).empty());
  found.state = RunDirectory::State::unfinished;
  CHECK(directory_conflict(found, "out", input, false, false).empty());  // it was killed before it left anything
  found.conflicts = {"input.toml"};
  CHECK_THAT(directory_conflict(found, "out", input, false, false),
             ContainsSubstring("is not finished, with the same input"));
  CHECK(input_changes(other, input).size() == 2);
}

TEST_CASE("values that each start of a job sets again are not differences") {
  const std::string there = "[run]\ndirectory = \"r\"\nmax_walltime = \"4:00:00\"\nseed = 1\n";
  for (const char* here : {"[run]\ndirectory = \"s\"\nmax_walltime = \"1:40:07\"\nseed = 1\n", "[run]\nseed = 1\n"}) {
    CHECK(input_changes(there, std::string(here)).empty());
    CHECK(input_changes(here, there).empty());
  }
  RunDirectory found{RunDirectory::State::finished, "finished", there, {"input.toml"}, {}};
  CHECK_THAT(directory_conflict(found, "out", std::string("[run]\nseed = 1\n"), false, true),
             ContainsSubstring("with the same input"));
}

TEST_CASE("keys that an older run's input lacks count where they are not at their default") {
  const std::string there = "[model]\nhidden_size = 64\n";
  const std::string usual = "[model]\nhidden_size = 768\nintermediate_size = 3072\n\n[schedule]\nwarmup_ratio = 0.0\n";
  const auto differences = [&](const std::string& here) { return input_changes(there, {here, usual}); };
  CHECK(differences(there + "intermediate_size = 3072\n\n[schedule]\nwarmup_ratio = 0.0\n").empty());
  CHECK(differences(there + "intermediate_size = 256\n") ==
        std::vector<KeyChange>{{"model.intermediate_size", std::nullopt, "256"}});
  // Keys that the input states count, at their default or not.
  CHECK(differences("[model]\nhidden_size = 768\n").size() == 1);
  CHECK(input_changes(there + "intermediate_size = 256\n", {there + "intermediate_size = 3072\n", usual}).size() == 1);
  RunDirectory found{RunDirectory::State::unfinished, "running", there, {"input.toml"}, {}};
  CHECK(directory_conflict(found, "out", {there + "intermediate_size = 3072\n", usual}, false, true).empty());
  CHECK_THAT(directory_conflict(found, "out", {there + "intermediate_size = 256\n", usual}, false, true),
             ContainsSubstring("intermediate_size"));
}

TEST_CASE("a run of a version that did not standardize labels resumes only without standardization") {
  const std::string there = "[task]\nname = \"regression\"\n", usual = there + "standardize = true\n";
  CHECK(input_changes(there, {there + "standardize = false\n", usual}).empty());
  const auto differences = input_changes(there, {usual, usual});
  CHECK(differences == std::vector<KeyChange>{{"task.standardize", "false", "true"}});
  CHECK(non_resumable(differences) == differences);
  CHECK(input_changes(there, {there, usual}).empty());  // an evaluation, which has no such key
}

TEST_CASE("an unfinished run resumes where only resumable keys differ") {
  RunDirectory found{RunDirectory::State::unfinished, "running", input, {"input.toml"}, {}};
  CHECK(directory_conflict(found, "out", input, false, true).empty());
  const std::string text = directory_conflict(found, "out", other, false, true);
  CHECK_THAT(text, ContainsSubstring("is not finished, and its input differs:"));
  CHECK_THAT(text, ContainsSubstring("batch.global"));
  CHECK_THAT(text, !ContainsSubstring("batch.micro"));
  found.input = "[run]\nseed = 1\n\n[optimizer]\nname = \"adamw\"\nlearning_rate = 1.0\n\n[parallel]\nzero = 1\n";
  CHECK(directory_conflict(found, "out",
                           std::string("[run]\nseed = 1\n\n[optimizer]\nname = \"adamw\"\n\n[log]\nevery_steps = 2\n"),
                           false, true)
            .empty());
  CHECK(non_resumable({{"optimizer.name", "a", "b"},
                       {"optimizer.learning_rate", "1", "2"},
                       {"parallel.zero", "0", "1"},
                       {"data.order", "a", "b"}}) ==
        std::vector<KeyChange>{{"optimizer.name", "a", "b"}, {"data.order", "a", "b"}});
  CHECK(describe({"batch.global", "32", "64"}) == "batch.global: 32 there, 64 here");
  CHECK(describe({"batch.global", std::nullopt, "64"}) == "batch.global: not given there, 64 here");
  found.state = RunDirectory::State::finished;
  CHECK_THAT(directory_conflict(found, "out", input, false, true), ContainsSubstring("is finished"));
}

TEST_CASE("a resumed run keeps its files, and its log up to the checkpoint") {
  Scratch scratch;
  begin_run(scratch.run, input);
  scratch.put("metrics.journal");
  std::ofstream(fs::path(scratch.run) / "log.txt") << "one\ntwo\n";
  end_run(scratch.run, RunEnd::stopped);
  continue_run(scratch.run, other, 100);
  CHECK(fs::file_size(fs::path(scratch.run) / "log.txt") == 8);
  fs::create_hard_link(fs::path(scratch.run) / "log.txt", fs::path(scratch.run) / "backup");
  continue_run(scratch.run, other, 4);
  CHECK(fs::file_size(fs::path(scratch.run) / "log.txt") == 4);
  CHECK(fs::file_size(fs::path(scratch.run) / "backup") == 8);
  CHECK(scratch.has("metrics.journal"));
  CHECK(inspect_run_directory(scratch.run).status == "running");
  CHECK(inspect_run_directory(scratch.run).input == other);
}

TEST_CASE("later starts of a job do not repeat --overwrite") {
  Scratch scratch;
  CHECK(beginning_there(inspect_run_directory(scratch.run), {"7", 1, "auto"}, true).overwrite);
  begin_run(scratch.run, input, {"7", 1, "a/step-00000002"});
  const RunDirectory found = inspect_run_directory(scratch.run);
  CHECK(found.start.job == "7");
  CHECK(found.start.restart == 1);
  CHECK(found.start.resume == "a/step-00000002");
  const auto overwrites = [&](const RunStart& now) { return beginning_there(found, now, true).overwrite; };
  CHECK(!overwrites({"7", 2, "auto"}));
  CHECK(overwrites({"7", 1, "auto"}));  // a second run of one job
  CHECK(overwrites({"8", 2, "auto"}));
  CHECK(overwrites({"", 0, "auto"}));
  CHECK(overwrites({"7", 2, "never"}));
  const auto own_first = [&](const std::string& resume) {
    return beginning_there(found, {"", 0, resume}, false).own_first;
  };
  CHECK(own_first("auto"));
  CHECK(own_first("a/step-00000002"));
  CHECK(!own_first("a/step-00000004"));
  CHECK(!own_first("never"));
  CHECK(!beginning_there(found, {"8", 0, "a/step-00000002"}, true).own_first);
  CHECK(beginning_there(found, {"7", 2, "a/step-00000002"}, true).own_first);
  // Two clusters on one file system have jobs of one number.
  note_start(scratch.run, {"7", 1, "auto", "east"});
  const RunDirectory east = inspect_run_directory(scratch.run);
  CHECK(beginning_there(east, {"7", 2, "auto", "west"}, true).overwrite);
  CHECK(!beginning_there(east, {"7", 2, "auto", "east"}, true).overwrite);
  CHECK(!beginning_there(found, {"7", 2, "auto", "east"}, true).overwrite);  // an older version did not note it
  note_start(scratch.run, {"", 0, "auto"});
  CHECK(inspect_run_directory(scratch.run).start.job.empty());
  CHECK(!beginning_there(inspect_run_directory(scratch.run), {"", 1, "auto"}, true).own_first);
}

TEST_CASE("a directory that cannot be made or written is reported before computing") {
  Scratch scratch;
  fs::create_directories(scratch.run);
  scratch.put("file");
  CHECK(code_of(scratch.run + "/file", input, false) == ExitCode::files);
  CHECK(code_of(scratch.run + "/file/below", input, false) == ExitCode::files);
  CHECK_THROWS_AS(begin_run(scratch.run + "/file/below", input), Error);
  if (geteuid() == 0) return;  // root may write anywhere
  CHECK(code_of("/proc/nowhere", input, false) == ExitCode::files);
}
