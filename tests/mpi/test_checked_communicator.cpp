// Ranks that enter different collectives, or do not come: every rank that is there learns what each one entered. The
// hidden cases let a whole program end so; tests/integration/test_checked_collectives.py runs them.
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <chrono>
#include <thread>
#include <vector>

#include "app/run/collective.hpp"
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

/// For ranks that all come, sooner or later: no time limit takes part.
const comm::CheckOptions patient{.timeout_seconds = 240, .silence_seconds = 0, .settle_seconds = 240};

/// A clock that stands still until all ranks but the missing one have entered an operation, and is past any limit then.
/// Each rank reports its entry to the others when it first reads the clock. For one operation.
class EntryClock final : public core::Clock {
 public:
  explicit EntryClock(int missing) : missing_(missing) {}

  Time now() override {
    if (!entered_) enter();
    std::erase_if(tokens_, [](const comm::RequestHandle& token) { return token->test(); });
    // Descriptions of operations travel before the tokens; the group has received them a poll later.
    if (tokens_.empty()) ++polls_;
    return polls_ > 3 ? Time(std::chrono::hours(1)) : Time{};
  }
  void pause(Duration) override { std::this_thread::yield(); }

 private:
  void enter() {
    entered_ = true;
    received_.resize(static_cast<std::size_t>(world().size()));
    for (int r = 0; r < world().size(); ++r) {
      if (r == missing_ || r == world().rank()) continue;
      tokens_.push_back(world().start_receive(std::span(&received_[static_cast<std::size_t>(r)], 1), r));
      tokens_.push_back(world().start_send(std::span(&sent_, 1), r));
    }
  }

  int missing_, polls_ = 0;
  bool entered_ = false;
  std::byte sent_{};
  std::vector<std::byte> received_;
  std::vector<comm::RequestHandle> tokens_;
};

/// A clock by which every wait is over at its first look.
struct HastyClock final : core::Clock {
  int readings = 0;
  Time now() override { return Time(std::chrono::hours(readings++)); }
  void pause(Duration) override {}
};

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
    const auto group = comm::make_checked_communicator(world(), patient);
    group->barrier();
    text = message_of([&] { rank == 1 ? all_reduce_three(*group) : broadcast_sixteen(*group, 0); });
  }
  world().barrier();
  CHECK_THAT(text, ContainsSubstring("the ranks entered different collective operations:") &&
                       ContainsSubstring("\n     rank 1 entered all_reduce(double × 3, sum)") &&
                       ContainsSubstring((size == 2 ? "\n     rank 0" : "\n     ranks 0, 2, 3") +
                                         std::string(" entered broadcast(16 bytes, from rank 0)")));

  const auto group = comm::make_checked_communicator(world(), patient);
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
      const auto group = comm::make_checked_communicator(world(), patient);
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
  std::string text, message;
  {
    EntryClock clock(0);
    const comm::CheckOptions options{.timeout_seconds = 1, .silence_seconds = 0, .clock = &clock};
    const auto group = comm::make_checked_communicator(world(), options);
    if (rank > 0) text = message_of([&] { all_reduce_three(*group); });
  }
  world().barrier();
  std::byte byte{};
  HastyClock clock;
  const comm::CheckOptions options{.timeout_seconds = 1, .silence_seconds = 0, .clock = &clock};
  const auto group = comm::make_checked_communicator(world(), options);
  if (rank == 0) message = message_of([&] { group->receive(std::span(&byte, 1), 1); });
  world().barrier();
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

void end_by(const comm::CheckOptions& options, const std::function<void(comm::Communicator&)>& work) {
  const auto group = comm::make_checked_communicator(world(), options);
  try {
    work(*group);
  } catch (const core::Error& error) {
    app::report(error, world().rank());
    comm::abort_all_ranks(static_cast<int>(error.code()));
  }
}

}  // namespace

TEST_CASE("a program with a mismatch", "[.mismatch]") {
  end_by({.timeout_seconds = 240, .silence_seconds = 240, .settle_seconds = 240},
         [](comm::Communicator& group) { group.rank() == 1 ? all_reduce_three(group) : broadcast_sixteen(group, 0); });
}

TEST_CASE("a program with a missing rank", "[.missing]") {
  // The one rank that waits needs no other clock than the system's.
  EntryClock clock(1);
  comm::CheckOptions options{.timeout_seconds = 2, .silence_seconds = 240};
  if (world().size() > 2) options.clock = &clock;
  end_by(options, [](comm::Communicator& group) {
    while (group.rank() == 1) pause();
    group.barrier();
  });
}
