#include <catch2/catch_test_macros.hpp>

#include "bert_hpc/core/workspace.hpp"

using bert_hpc::core::Error;
using bert_hpc::core::Workspace;

TEST_CASE("a workspace has exactly the planned size") {
  Workspace workspace;
  const auto requests = [&workspace] {
    workspace.take<float>(3, 5);
    const auto mark = workspace.mark();
    workspace.take<double>(100, 1);
    workspace.release(mark);
    return workspace.take<float>(7, 7);
  };
  CHECK(requests().data == nullptr);
  workspace.release(0);
  workspace.allocate();
  CHECK(workspace.bytes() == 64 + 800);
  const auto last = requests();
  REQUIRE(last.data != nullptr);
  CHECK(reinterpret_cast<std::uintptr_t>(last.data) % 64 == 0);
  CHECK_THROWS_AS(workspace.take<double>(100, 1), Error);
}
