#include "app/report/grid_picture.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include "bert_hpc/core/error.hpp"

using bert_hpc::app::grid_picture;
using bert_hpc::app::StageFacts;

TEST_CASE("the picture of a grid of two ranks, and of one rank") {
  CHECK(grid_picture({1, 2, 1}, {{{{6, "0-2"}}, 4'000'000, 64'000'000}, {{{2, "3"}}, 1'500'000, 24'000'000}}) ==
        "stage  ranks  holds                    parameters a rank  memory a rank\n"
        "0      0      embeddings + blocks 0-2  4,000,000          61.0 MiB\n"
        "1      1      block 3 + head           1,500,000          22.9 MiB\n");
  CHECK(grid_picture({1, 1, 1}, {{{{4, "0-1"}}, 100, 0}}) ==
        "stage  ranks  holds                           parameters a rank\n"
        "0      0      embeddings + blocks 0-1 + head  100\n");
  CHECK(grid_picture({2, 1, 1}, {{{{4, "0-1"}}, 100, 0}}) ==
        "stage  ranks  holds                           parameters a rank\n"
        "0      0-1    embeddings + blocks 0-1 + head  100\n"
        "2 replicas, a rank each in every stage\n");
}

TEST_CASE("the picture shows virtual stages with all their blocks") {
  CHECK(grid_picture({1, 2, 2}, {{{{4, "0-1"}, {4, "4-5"}}, 10, 0}, {{{4, "2-3"}, {2, "6"}}, 20, 0}}) ==
        "stage  ranks  holds                         parameters a rank\n"
        "0      0-1    embeddings + blocks 0-1, 4-5  10\n"
        "1      2-3    blocks 2-3, 6 + head          20\n"
        "2 neighbouring ranks share the blocks of a stage\n");
}

TEST_CASE("the picture shows cuts inside blocks") {
  CHECK(grid_picture({1, 3, 1}, {{{{7, "0-2, attention of 3"}}, 10, 0},
                                 {{{8, "feed-forward of 3, 4-6, attention of 7"}}, 20, 0},
                                 {{{1, "feed-forward of 7"}}, 30, 0}}) ==
        "stage  ranks  holds                                    parameters a rank\n"
        "0      0      embeddings + blocks 0-2, attention of 3  10\n"
        "1      1      feed-forward of 3, 4-6, attention of 7   20\n"
        "2      2      feed-forward of 7 + head                 30\n");
}

TEST_CASE("a thousand ranks take a few lines: equal stages share a line, the first and last stand alone") {
  std::vector<StageFacts> stages;
  for (int p = 0; p < 32; ++p)
    stages.push_back({{{6, std::to_string(3 * p) + '-' + std::to_string(3 * p + 2)}}, 5, 1 << 20});
  CHECK(grid_picture({8, 32, 4}, stages) ==
        "stage  ranks     holds                       parameters a rank  memory a rank\n"
        "0      0-31      embeddings + blocks 0-2     5                  1.0 MiB\n"
        "1-30   32-991    blocks 3-5 to blocks 90-92  5                  1.0 MiB\n"
        "31     992-1023  blocks 93-95 + head         5                  1.0 MiB\n"
        "8 replicas, each stage of one on 4 neighbouring ranks that share its blocks\n");
  CHECK_THROWS_AS(grid_picture({1, 2, 1}, {stages[0]}), bert_hpc::core::Error);
}
