#include "app/plan/pipeline_setup.hpp"

#include <catch2/catch_test_macros.hpp>

using bert_hpc::app::micro_batch_candidates;
using Numbers = std::vector<int>;

TEST_CASE("numbers of micro-batches are tried from one a stage on, as far as there are sequences") {
  CHECK(micro_batch_candidates(2, 64, 1000, 4096) == Numbers{2, 4, 6, 8, 12, 16, 24, 32});
  CHECK(micro_batch_candidates(4, 10, 1000, 4096) == Numbers{4, 8, 10});
  CHECK(micro_batch_candidates(4, 3, 1000, 4096) == Numbers{3});
  CHECK(micro_batch_candidates(4, 1, 100, 4096) == Numbers{1});
}

TEST_CASE("micro-batches stay within their tokens as far as there are sequences") {
  CHECK(micro_batch_candidates(2, 256, 32768, 4096) == Numbers{8, 12, 16, 24, 32});
  CHECK(micro_batch_candidates(2, 1024, 300000, 4096) == Numbers{74});  // 73.2 of them, two stages
  CHECK(micro_batch_candidates(2, 10, 300000, 4096) == Numbers{10});
}
