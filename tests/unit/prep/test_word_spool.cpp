// Lists of numbers come back from the scratch file as they went into it, as often as they are read.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <random>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/word_spool.hpp"
#include "support/temporary_directory.hpp"

using bert_hpc::prep::WordSpool;
using bert_hpc::test::TemporaryDirectory;

TEST_CASE("numbers of any size and lists of any length survive the scratch file") {
  std::vector<std::vector<std::int32_t>> lists = {
      {}, {0}, {32767, 32768, 65535, 65536, 2147483647}, {}, std::vector<std::int32_t>(100000, 7)};
  std::mt19937 random(1);
  for (int i = 0; i < 3000; ++i) {  // more than the buffer holds
    lists.emplace_back();
    for (std::uint32_t n = random() % 600; n > 0; --n) {
      lists.back().push_back(static_cast<std::int32_t>(random() >> (1 + random() % 31)));
    }
  }
  const TemporaryDirectory directory;
  WordSpool spool(directory / "words");
  for (const auto& list : lists) spool.add(list);
  for (int round = 0; round < 2; ++round) {
    spool.rewind();
    bool right = true;
    for (const auto& list : lists) {
      std::vector<std::int32_t> found = {5};
      spool.read(found);
      right = right && found.size() == list.size() + 1 && std::equal(list.begin(), list.end(), found.begin() + 1);
    }
    CHECK(right);
    std::vector<std::int32_t> none;
    CHECK_THROWS_AS(spool.read(none), bert_hpc::core::Error);
  }
}

TEST_CASE("small numbers take two bytes, others four") {
  const TemporaryDirectory directory;
  WordSpool spool(directory / "words");
  spool.add({1, 32767, 32768});
  spool.rewind();
  CHECK(std::filesystem::file_size(directory / "words") == 2 * (1 + 1 + 1 + 2));
}
