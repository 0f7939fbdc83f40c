// Ranks agree on failures, and typed values travel between them.
#include <catch2/catch_test_macros.hpp>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/comm/agreement.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "support/world.hpp"

using namespace bert_hpc;

TEST_CASE("work that succeeds on all ranks throws no error") {
  comm::Communicator& world = test::world();
  int calls = 0;
  CHECK_NOTHROW(comm::agree(
      world, [&] { ++calls; }, ""));
  CHECK(calls == 1);
}

TEST_CASE("every rank throws the error of the lowest rank that failed") {
  comm::Communicator& world = test::world();
  const int first = world.size() > 1 ? 1 : 0;
  const auto work = [&] {
    if (world.rank() >= first) {
      throw core::Error(core::ExitCode::files, "rank " + std::to_string(world.rank()) + " cannot read x.h5");
    }
  };
  try {
    comm::agree(world, work, "");
    FAIL("nothing was thrown");
  } catch (const comm::AgreedError& error) {
    CHECK(error.rank() == first);
    CHECK(error.code() == core::ExitCode::files);
    CHECK(error.what() == "rank " + std::to_string(first) + " cannot read x.h5");
  }
}

TEST_CASE("memory that one rank lacks becomes an error of the input on every rank") {
  comm::Communicator& world = test::world();
  const int last = world.size() - 1;
  try {
    comm::agree(
        world,
        [&] {
          if (world.rank() == last) throw std::bad_alloc();
        },
        "lower batch.global");
    FAIL("nothing was thrown");
  } catch (const comm::AgreedError& error) {
    CHECK(error.rank() == last);
    CHECK(error.code() == core::ExitCode::input);
    CHECK(std::string(error.what()).find("lower batch.global.") != std::string::npos);
  }
}

TEST_CASE("objects of different sizes are gathered by rank, and broadcast") {
  comm::Communicator& world = test::world();
  using Object = std::pair<std::string, std::vector<std::int64_t>>;
  const auto of_rank = [](int rank) {
    return Object("rank\t" + std::to_string(rank),
                  std::vector<std::int64_t>(static_cast<std::size_t>(3 * rank), -rank));
  };
  const std::vector<Object> all = comm::all_gather_objects(world, of_rank(world.rank()));
  REQUIRE(static_cast<int>(all.size()) == world.size());
  for (int rank = 0; rank < world.size(); ++rank) CHECK(all[static_cast<std::size_t>(rank)] == of_rank(rank));
  const int root = world.size() - 1;
  CHECK(comm::broadcast_object(world, of_rank(world.rank()), root) == of_rank(root));
}
