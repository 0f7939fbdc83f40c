#include "bert_hpc/objectives/answer_files.hpp"

#include <catch2/catch_test_macros.hpp>

#include "support/temporary_directory.hpp"

using namespace bert_hpc::objectives;
using bert_hpc::test::file_bytes;
using bert_hpc::test::TemporaryDirectory;

TEST_CASE("answers as Python's json.dump(…, indent=4) writes them") {
  const TemporaryDirectory directory;
  {
    AnswerFiles files(directory.path());
    files.add({"a", "k\xC3\xA4se \"x\"", {{"k\xC3\xA4se \"x\"", 1.5f, -2, 0.75}, {"", 0, 0.5f, 0.25}}, {}});
    CHECK_FALSE(std::filesystem::exists(directory / "null_odds.json.partial"));  // no question has odds yet
    files.add({"b", "", {}, -0.5});
    files.add({"c", "y", {}, {}});
    CHECK_FALSE(std::filesystem::exists(directory / "predictions.json"));
    files.close();
  }
  CHECK(file_bytes(directory / "predictions.json") ==
        "{\n    \"a\": \"k\\u00e4se \\\"x\\\"\",\n    \"b\": \"\",\n    \"c\": \"y\"\n}\n");
  CHECK(file_bytes(directory / "nbest_predictions.json") ==
        "{\n    \"a\": [\n"
        "        {\n            \"start_logit\": 1.5,\n            \"end_logit\": -2.0,\n"
        "            \"probability\": 0.75,\n            \"text\": \"k\\u00e4se \\\"x\\\"\"\n        },\n"
        "        {\n            \"start_logit\": 0.0,\n            \"end_logit\": 0.5,\n"
        "            \"probability\": 0.25,\n            \"text\": \"\"\n        }\n"
        "    ],\n    \"b\": [],\n    \"c\": []\n}\n");
  CHECK(file_bytes(directory / "null_odds.json") == "{\n    \"b\": -0.5\n}\n");
}

TEST_CASE("answers without odds have no file of odds, and no questions give empty objects") {
  const TemporaryDirectory directory;
  AnswerFiles files(directory.path());
  files.close();
  CHECK(file_bytes(directory / "predictions.json") == "{}\n");
  CHECK(file_bytes(directory / "nbest_predictions.json") == "{}\n");
  CHECK_FALSE(std::filesystem::exists(directory / "null_odds.json"));
}

TEST_CASE("answers go to the disk while questions come") {
  const TemporaryDirectory directory;
  const std::string text(1000, 'x');
  {
    AnswerFiles files(directory.path());
    for (int i = 0; i < 2000; ++i) files.add({std::to_string(i), text, {{text, 0, 0, 1}}, 1.0});
    // All but the buffer of 256 KiB of each file.
    CHECK(std::filesystem::file_size(directory / "predictions.json.partial") > 2000 * text.size() - (1 << 18));
    CHECK(std::filesystem::file_size(directory / "nbest_predictions.json.partial") > 2000 * text.size() - (1 << 18));
  }
  CHECK(std::filesystem::is_empty(directory.path()));
}
