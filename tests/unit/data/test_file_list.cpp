// Patterns, and files that are named twice.
#include "bert_hpc/data/file_list.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>

#include "shard_fixture.hpp"

using namespace bert_hpc;
using test::ScratchDirectory;

TEST_CASE("a pattern without a match says whether its folder is there") {
  const ScratchDirectory directory;
  const auto problem_of = [&](const std::string& path) {
    core::ProblemList problems;
    CHECK(data::match_paths({path}, problems).empty());
    REQUIRE(problems.all().size() == 1);
    return problems.all().front();
  };
  const std::string pattern = directory / "train-*.h5";
  CHECK(problem_of(pattern) == "No file matches '" + pattern + "'.");
  CHECK(problem_of(directory / "nothere/deeper/train-*.h5") ==
        "No file matches '" + (directory / "nothere/deeper/train-*.h5") + "': there is no folder '" +
            (directory / "nothere") + "'.");
  CHECK(problem_of("nothere/train-*.h5") == "No file matches 'nothere/train-*.h5': there is no folder 'nothere'.");
  CHECK(problem_of("/no[t]here/train-*.h5").ends_with("'."));
}

TEST_CASE("one file under two names is found, in one list and across lists") {
  const ScratchDirectory directory;
  const std::string a = directory / "a", b = directory / "b", link = directory / "link", dotted = directory / "./a";
  for (const std::string& file : {a, b}) std::ofstream(file) << "the same text";
  std::filesystem::create_symlink(a, link);
  CHECK(data::repeated_files({{"train", a}, {"train", b}, {"test", directory / "none"}, {"test", directory / "none"}})
            .empty());
  const auto found =
      data::repeated_files({{"train", a}, {"train", b}, {"train", a}, {"train", dotted}, {"test", link}});
  REQUIRE(found.size() == 3);
  CHECK(found[0].in_one_list());
  CHECK(describe(found[0]) == "train names '" + a + "' twice");
  CHECK(describe(found[1]) == "train names '" + a + "' twice, also as '" + dotted + "'");
  CHECK_FALSE(found[2].in_one_list());
  CHECK(describe(found[2]) == "'" + a + "' is in train and in test (as '" + link + "')");
  CHECK(data::describe({{"train", a}, {"test", a}}) == "'" + a + "' is in train and in test");
}
