#include "bert_hpc/app/data_sets.hpp"

#include <catch2/catch_test_macros.hpp>

using bert_hpc::app::pipeline_micro_batches;

TEST_CASE("a pipeline gets four micro-batches a stage, as far as there are sequences") {
  CHECK(pipeline_micro_batches({.data = 4, .pipeline = 1, .tensor = 2}, 64) == 0);
  CHECK(pipeline_micro_batches({.data = 1, .pipeline = 2, .tensor = 1}, 64) == 8);
  CHECK(pipeline_micro_batches({.data = 2, .pipeline = 8, .tensor = 1}, 256) == 32);
  CHECK(pipeline_micro_batches({.data = 8, .pipeline = 4, .tensor = 1}, 32) == 4);
  CHECK(pipeline_micro_batches({.data = 8, .pipeline = 4, .tensor = 1}, 4) == 1);
}
