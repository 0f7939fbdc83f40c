// Which tokenizer an exported model gets; timers over ranks.
#include "app/report/results.hpp"

#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>

#include "app/report/bytes_read.hpp"
#include "bert_hpc/core/hash.hpp"

using namespace bert_hpc;
namespace fs = std::filesystem;

TEST_CASE("what ranks have read is added up by node, in the order of the nodes' first ranks") {
  const std::vector<app::BytesRead> ranks = {{"b", 1}, {"a", 20}, {"b", 300}, {"c", 0}};
  CHECK(app::bytes_of_nodes(ranks) == std::vector<std::int64_t>{301, 20, 0});
}

TEST_CASE("planned memory over ranks has each purpose once, with 0 bytes where a rank has none") {
  const std::vector<io::MemoryRow> rows = app::memory_of_all(
      {{{"gradients", 5}, {"messages", 1}, {"messages", 2}}, {{"activations", 7}, {"gradients", 6}}});
  REQUIRE(rows.size() == 3);
  CHECK((rows[0].purpose == "gradients" && rows[0].bytes == std::vector<std::int64_t>{5, 6}));
  CHECK((rows[1].purpose == "messages" && rows[1].bytes == std::vector<std::int64_t>{3, 0}));
  CHECK((rows[2].purpose == "activations" && rows[2].bytes == std::vector<std::int64_t>{0, 7}));
}

TEST_CASE("a model gets the vocabulary that its shards were made with, and no other") {
  const fs::path root = fs::temp_directory_path() / ("bert_hpc_results_" + std::to_string(getpid()));
  for (const char* name : {"shards", "model"}) fs::create_directories(root / name);
  const auto put = [&](const char* name, const char* text) {
    std::ofstream(root / name / "vocab.txt") << "[CLS]\n[SEP]\n" << text;
  };
  config::Config input;
  input.data.train = {(root / "shards/train-*.h5").string()};
  input.model.pretrained = (root / "model").string();
  data::ShardInfo shards;
  shards.vocabulary_hash = core::hash_of_lines({"[CLS]", "[SEP]", "a", "b"});
  shards.vocabulary_size = 4;
  const auto chosen = [&] { return app::tokenizer_folder(input, shards, 4); };

  CHECK(chosen() == root / "model");  // which may have a tokenizer of another kind
  put("model", "a\nb\n");
  CHECK(chosen() == root / "model");
  put("shards", "a\nb\n");
  CHECK(chosen() == root / "shards");
  put("shards", "b\na\n");
  CHECK(chosen() == root / "model");
  put("model", "a\nb\nc\n");
  CHECK(chosen().empty());
  shards.vocabulary_hash = "";
  CHECK(chosen() == root / "shards");
  fs::remove_all(root);
}

TEST_CASE("a rank without a section has spent no time in it, in the least as in the mean") {
  const auto rows =
      app::timers_of_all({{{"step", 5, 2.0}}, {{"step", 6, 4.0}, {"checkpoint", 1, 3.0}}, {{"step", 4, 3.0}}});
  REQUIRE(rows.size() == 2);
  CHECK(rows[0].calls == 6);
  CHECK(rows[0].seconds_min == 2.0);
  CHECK(rows[0].seconds_max == 4.0);
  CHECK(rows[1].name == "checkpoint");
  CHECK(rows[1].seconds_min == 0.0);
  CHECK(rows[1].seconds_avg == 1.0);
  CHECK(rows[1].seconds_max == 3.0);
  CHECK_FALSE(rows[0].has_device());
}

TEST_CASE("times of the device are reduced over ranks like those of the host") {
  const auto rows = app::timers_of_all({{{"step", 5, 2.0, 6.0}}, {{"step", 6, 4.0, 3.0}, {"checkpoint", 1, 3.0, 1.0}}});
  REQUIRE(rows.size() == 2);
  REQUIRE(rows[0].has_device());
  CHECK(rows[0].device_seconds_min == 3.0);
  CHECK(rows[0].device_seconds_avg == 4.5);
  CHECK(rows[0].device_seconds_max == 6.0);
  CHECK(rows[0].seconds_avg == 3.0);
  CHECK(rows[1].device_seconds_min == 0.0);
  CHECK(rows[1].device_seconds_avg == 0.5);
}
