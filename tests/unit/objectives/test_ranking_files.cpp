// The name of a run in run.trec.
#include "bert_hpc/objectives/ranking_files.hpp"

#include <catch2/catch_test_macros.hpp>
#include <filesystem>

using bert_hpc::objectives::run_name;

TEST_CASE("a run has the name of its directory, in one column") {
  CHECK(run_name("wikiqa/run") == "run");
  CHECK(run_name("/data/wikiqa/run 2\tnew/") == "run_2_new");
  CHECK(run_name("a/b/..") == "a");
  CHECK(run_name("Läufe/größer") == "größer");
  CHECK(run_name(".") == std::filesystem::current_path().filename().string());
  CHECK(run_name("/") == "bert_hpc");
}
