// Memory that the ranks of a node share: what one writes all read, and what no rank wrote is zero and takes no memory.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <fstream>
#include <string>

#include "bert_hpc/comm/node_pages.hpp"
#include "support/world.hpp"

using namespace bert_hpc;

namespace {

using test::world;

/// True if it holds on every rank.
bool everywhere(bool holds) {
  return !world().any(!holds);
}

/// Resident memory of this process, shared pages included, in bytes.
std::int64_t resident() {
  std::ifstream file("/proc/self/statm");
  std::int64_t pages = 0;
  file >> pages >> pages;
  return pages * 4096;
}

}  // namespace

TEST_CASE("ranks of a node share one memory") {
  constexpr std::size_t each = 10000;  // no multiple of a page
  const comm::NodePages pages(each * static_cast<std::size_t>(world().size()));
  // The tests run on one node.
  CHECK(everywhere(pages.position().ranks == world().size() && pages.position().rank == world().rank()));
  bool zero = true;
  for (const std::byte value : pages.memory()) zero = zero && value == std::byte{0};
  CHECK(everywhere(zero));
  world().barrier();
  const auto own = pages.memory().subspan(each * static_cast<std::size_t>(world().rank()), each);
  std::fill(own.begin(), own.end(), static_cast<std::byte>(world().rank() + 1));
  world().barrier();
  bool right = true;
  for (std::size_t i = 0; i < pages.memory().size(); ++i) {
    right = right && pages.memory()[i] == static_cast<std::byte>(i / each + 1);
  }
  CHECK(everywhere(right));
  world().barrier();
}

TEST_CASE("pages of node memory exist once they are written") {
  constexpr std::int64_t large = std::int64_t{1} << 34;  // more than the test machine's memory would give gladly
  const std::int64_t before = resident();
  const comm::NodePages pages(static_cast<std::size_t>(large));
  pages.memory().back() = std::byte{1};
  CHECK(everywhere(resident() - before < (std::int64_t{64} << 20)));
  world().barrier();
}

TEST_CASE("node memory of no bytes is memory") {
  CHECK(everywhere(comm::NodePages(0).memory().data() != nullptr));
}
