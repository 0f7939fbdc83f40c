#include "bert_hpc/train/gradient_norm.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace bert_hpc;

TEST_CASE("what a tensor group has whole is counted by its first rank, shards by each") {
  const std::vector<core::ParameterSpec> whole = {{"a", {8, 4}}, {"b", {4}}, {"c", {4, 8}}};
  std::vector<core::ParameterSpec> part = {{"a", {4, 4}}, {"b", {4}}, {"c", {4, 4}}};
  part[0].shard = {0, 4, 8};
  part[2].shard = {1, 4, 8};
  const core::ParameterStore store(part, core::ParameterStore::Arenas::none);
  const auto alone = comm::make_self_communicator();
  CHECK(train::norm_scope(store.slices(), whole, *alone, 0).first_block == std::vector<std::int64_t>{0, 1, 2});
  CHECK(train::norm_scope(store.slices(), whole, *alone, 1).first_block == std::vector<std::int64_t>{0, -1, 2});
}
