// Ranks that enter different collectives, or do not come: every rank that is there learns what each one entered. The
// hidden cases let a whole program end so; tests/integration/test_checked_collectives.py runs them.
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/comm/checked_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/error.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using Catch::Matchers::ContainsSubstring;

namespace {

using test::world;

/// The error message of a rank. The caller checks it without collectives of the broken group.
std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const core::Error& error) {
    CHECK(error.code() == core::ExitCode::communication);
    return error.what();
  }
  return "nothing";
}

constexpr comm::CheckOptions quick{.timeout_seconds = 1, .silence_seconds = 0};

void all_reduce_three(comm::Communicator& group) {
  double x[3] = {};
  group.all_reduce(x, comm::Reduction::sum);
}

void broadcast_sixteen(comm::Communicator& group, int root) {
  std::byte bytes[16] = {};
  group.broadcast(bytes, root);
}

}  // namespace

TEST_CASE("different operations are reported by name, in subgroups with the ranks of the whole group") {
  const int rank = world().rank(), size = world().size();
  if (size < 2) SKIP("needs two ranks");
  std::string text;
  {
    const auto group = comm::make_checked_communicator(world(), quick);
    group->barrier();
    text = message_of([&] { rank == 1 ? all_reduce_three(*group) : broadcast_sixteen(*group, 0); });
  }
  world().barrier();
  CHECK_THAT(text, ContainsSubstring("the ranks entered different collective operations:") &&
                       ContainsSubstring("\n     rank 1 entered all_reduce(double × 3, sum)") &&
                       ContainsSubstring((size == 2 ? "\n     rank 0" : "\n     ranks 0, 2, 3") +
                                         std::string(" entered broadcast(16 bytes, from rank 0)")));

  const auto group = comm::make_checked_communicator(world(), quick);
  const auto reversed = group->split(0, -rank);  // its rank 0 is the world's last one
  text = message_of([&] { broadcast_sixteen(*reversed, rank == 0 ? 0 : 1); });
  world().barrier();
  CHECK_THAT(text,
             ContainsSubstring("rank 0 entered broadcast(16 bytes, from rank " + std::to_string(size - 1) + ")") &&
                 ContainsSubstring("entered broadcast(16 bytes, from rank " + std::to_string(size - 2) + ")"));
}

TEST_CASE("count, type, reduction and kind of memory must be the same, and the two sides of an exchange agree") {
  const int rank = world().rank();
  if (world().size() < 2) SKIP("needs two ranks");
  const bool odd = rank == 1;
  std::vector<float> four(4), five(5);
  std::vector<double> doubles(4);
  const std::vector<std::function<void(comm::Communicator&)>> cases = {
      [&](comm::Communicator& g) { g.all_reduce(std::span(odd ? four : five), comm::Reduction::sum); },
      [&](comm::Communicator& g) {
        odd ? g.all_reduce(std::span(four), comm::Reduction::sum)
            : g.all_reduce(std::span(doubles), comm::Reduction::sum);
      },
      [&](comm::Communicator& g) {
        g.all_reduce(std::span(four), odd ? comm::Reduction::sum : comm::Reduction::maximum);
      },
      [&](comm::Communicator& g) { g.allocate(64, odd ? comm::Sharing::exposed : comm::Sharing::replicated); },
      [&](comm::Communicator& g) { odd ? g.barrier() : static_cast<void>(g.split(0, 0)); },
      [&](comm::Communicator& g) {
        std::vector<float>& mine = odd ? four : five;
        std::vector<float> theirs(mine.size());
        g.exchange(mine, theirs, rank ^ 1);
      },
  };
  for (std::size_t i = 0; i < cases.size(); ++i) {
    INFO("case " << i);
    std::string text;
    {
      const auto group = comm::make_checked_communicator(world(), quick);
      text = message_of([&] { cases[i](*group); });
    }
    world().barrier();
    // Pairs of an exchange other than ranks 0 and 1 agree.
    if (i + 1 < cases.size() || rank < 2) CHECK_THAT(text, ContainsSubstring("entered different collective"));
  }
}

TEST_CASE("the error names a missing rank, and a missing message") {
  const int rank = world().rank(), size = world().size();
  if (size < 2) SKIP("needs two ranks");
  const auto begin = std::chrono::steady_clock::now();
  std::string text, message;
  {
    const auto group = comm::make_checked_communicator(world(), quick);
    if (rank > 0) text = message_of([&] { all_reduce_three(*group); });
  }
  world().barrier();
  std::byte byte{};
  const auto group = comm::make_checked_communicator(world(), quick);
  if (rank == 0) message = message_of([&] { group->receive(std::span(&byte, 1), 1); });
  world().barrier();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  CHECK(seconds.count() < 20);  // two limits of one second, and a machine with more ranks than cores
  if (rank > 0) {
    CHECK_THAT(text, ContainsSubstring("not all ranks reached a collective operation within 1 s") &&
                         ContainsSubstring("entered all_reduce(double × 3, sum)") &&
                         ContainsSubstring("\n     rank 0 did not arrive"));
  } else {
    CHECK_THAT(message, ContainsSubstring("receive(1 byte, from rank 1) has not ended after 1 s"));
    world().send(std::span(&byte, 1), 1);  // the late message of a group that was left
  }
  if (rank == 1) world().receive(std::span(&byte, 1), 0);
}

// As the program ends: one rank reports, all are gone.
namespace {

void end_by(const std::function<void(comm::Communicator&)>& work) {
  const auto group = comm::make_checked_communicator(world(), {.timeout_seconds = 2});
  try {
    work(*group);
  } catch (const core::Error& error) {
    app::report(error, world().rank());
    comm::abort_all_ranks(static_cast<int>(error.code()));
  }
}

}  // namespace

TEST_CASE("a program with a mismatch", "[.mismatch]") {
  end_by([](comm::Communicator& group) { group.rank() == 1 ? all_reduce_three(group) : broadcast_sixteen(group, 0); });
}

TEST_CASE("a program with a missing rank", "[.missing]") {
  end_by([](comm::Communicator& group) {
    if (group.rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(100));
    group.barrier();
  });
}
