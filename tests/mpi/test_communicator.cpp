// The common suite of communicators, run under 1, 2 and 4 ranks: the group of one, MPI's world, parts of it, and what
// is wrapped around them pass the same cases. Every check is a verdict reduced over all ranks, so that one rank's
// failure cannot leave the others waiting in the next collective.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "bert_hpc/comm/checked_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/error.hpp"
#include "support/delayed_communicator.hpp"
#include "support/settled_communicator.hpp"
#include "support/vector.hpp"
#include "support/world.hpp"

using namespace bert_hpc;

namespace {

using test::world;

/// True if the condition holds on every rank of the world, for any group of the case.
bool everywhere(bool holds) {
  return !world().any(!holds);
}

test::Vector<float> ramp(std::size_t count, float start) {
  test::Vector<float> x(count);
  std::iota(x.begin(), x.end(), start);
  return x;
}

template <class T>
void write(std::span<T> device, const std::vector<T>& content) {
  core::copy_to_device(content.data(), device.data(), device.size_bytes());
}

/// A communicator with those that it needs to live.
struct Group {
  std::vector<std::unique_ptr<comm::Communicator>> layers;  // the last one is the group
  comm::Communicator& get() { return *layers.back(); }
  Group& wrap(std::unique_ptr<comm::Communicator> layer) {
    layers.push_back(std::move(layer));
    return *this;
  }
  Group& delayed(unsigned seed) { return wrap(std::make_unique<test::DelayedCommunicator>(get(), seed)); }
  Group& checked() { return wrap(comm::make_checked_communicator(get(), {.timeout_seconds = 60})); }
};

struct Kind {
  std::string name;
  std::function<Group()> make;  // collective over the world
};

Group of(std::unique_ptr<comm::Communicator> first) {
  Group group;
  group.wrap(std::move(first));
  return group;
}

std::vector<Kind> kinds() {
  const auto whole = [] { return of(world().split(0, world().rank())); };
  const auto reversed = [] { return of(world().split(0, -world().rank())); };
  const auto half = [] { return of(world().split(world().rank() % 2, 0)); };
  std::vector<Kind> found = {
      {"one rank", [] { return of(comm::make_self_communicator()); }},
      {"all of the world", whole},
      {"the world in reverse", reversed},
      {"every other rank", half},
      {"the checked world", [=] { return std::move(whole().checked()); }},
      {"the delayed world", [=] { return std::move(whole().delayed(1)); }},
      {"the world in reverse, delayed, checked, delayed",
       [=] { return std::move(reversed().delayed(2).checked().delayed(3)); }},
      {"every other rank, checked and delayed", [=] { return std::move(half().checked().delayed(4)); }},
      {"half of a delayed, checked world",
       [=] {
         Group group = std::move(whole().delayed(5).checked());
         return std::move(group.wrap(group.get().split(world().rank() % 2, -world().rank())));
       }},
  };
  // MPI reaches no memory of a GPU.
  if (!core::is_gpu_build()) found.push_back({"MPI's world", [] { return of(comm::make_world_communicator()); }});
  return found;
}

/// Runs a case on every kind of group.
void on_all_kinds(const std::function<void(comm::Communicator&)>& body) {
  for (const Kind& kind : kinds()) {
    INFO(kind.name);
    Group group = kind.make();
    test::SettledCommunicator settled(group.get());
    body(settled);
  }
}

}  // namespace

TEST_CASE("all_reduce gives sums and extremes on every rank") {
  on_all_kinds([](comm::Communicator& group) {
    const int rank = group.rank(), size = group.size();
    test::Vector<float> x = {static_cast<float>(rank), 1.0f};
    group.all_reduce(x, comm::Reduction::sum);
    CHECK(everywhere(x[0] == static_cast<float>(size * (size - 1) / 2) && x[1] == static_cast<float>(size)));
    CHECK(everywhere(group.maximum(double(rank)) == size - 1 && group.minimum(double(rank)) == 0.0));
    CHECK(everywhere(group.sum(std::int64_t{rank}) == size * (size - 1) / 2));
    CHECK(everywhere(group.any(rank == size - 1) && !group.any(false)));
  });
}

TEST_CASE("reduce_scatter gives each rank its piece of the sum, and all_gather puts pieces together") {
  on_all_kinds([](comm::Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank()), size = static_cast<std::size_t>(group.size());
    const std::size_t piece = 1000;
    const test::Vector<float> data = ramp(piece * size, static_cast<float>(rank));
    test::Vector<float> mine(piece);
    group.start_reduce_scatter(data, mine)->wait();
    bool right = true;
    for (std::size_t i = 0; i < piece; ++i) {
      right = right && mine[i] == static_cast<float>(size * (rank * piece + i) + size * (size - 1) / 2);
    }
    CHECK(everywhere(right));

    test::Vector<float> all(piece * size);
    std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(rank * piece));
    const auto request = group.start_all_gather(all);
    while (!request->test()) {
    }
    right = true;
    for (std::size_t i = 0; i < all.size(); ++i) {
      right = right && all[i] == static_cast<float>(size * i + size * (size - 1) / 2);
    }
    CHECK(everywhere(right));
  });
}

TEST_CASE("texts, broadcasts and point-to-point messages arrive") {
  on_all_kinds([](comm::Communicator& group) {
    const int rank = group.rank(), size = group.size();
    const std::vector<std::string> texts =
        group.all_gather("rank " + std::to_string(rank) + std::string(static_cast<std::size_t>(rank), '!'));
    bool right = static_cast<int>(texts.size()) == size;
    for (int r = 0; right && r < size; ++r) {
      right = texts[static_cast<std::size_t>(r)] ==
              "rank " + std::to_string(r) + std::string(static_cast<std::size_t>(r), '!');
    }
    CHECK(everywhere(right));
    CHECK(everywhere(group.broadcast(rank == 0 ? "from zero" : "", 0) == "from zero"));
    if (size % 2 == 0) {
      const test::Vector<float> send = ramp(10, static_cast<float>(rank));
      test::Vector<float> received(10);
      group.exchange(send, received, rank ^ 1);
      CHECK(everywhere(received[9] == static_cast<float>((rank ^ 1) + 9)));
    }
    if (size > 1) {
      int token = rank;
      if (rank == 0) group.send(std::as_bytes(std::span(&token, 1)), size - 1);
      if (rank == size - 1) group.receive(std::as_writable_bytes(std::span(&token, 1)), 0);
      CHECK(everywhere(rank == size - 1 ? token == 0 : token == rank));
    }
  });
}

TEST_CASE("sums and gathers over memory that the group allocated") {
  on_all_kinds([](comm::Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank()), size = static_cast<std::size_t>(group.size());
    const std::size_t piece = 10000, count = piece * size;  // several blocks of the sum
    const auto floats = [&](comm::Sharing sharing) {
      const std::span<std::byte> bytes = group.allocate(count * sizeof(float), sharing);
      return std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    };
    const std::span<float> gradients = floats(comm::Sharing::exposed), values = floats(comm::Sharing::replicated),
                           copies = floats(comm::Sharing::exposed);
    CHECK(everywhere(test::copy_of(gradients) == std::vector<float>(count) && test::copy_of(values).back() == 0.0f));
    std::vector<float> content(count);
    test::Vector<float> mine(piece);
    bool right = true;
    for (std::size_t round = 0; round < 20; ++round) {  // the data changes as soon as an operation has ended
      for (std::size_t i = 0; i < count; ++i) content[i] = static_cast<float>(i % 1000 + round * rank);
      write(gradients, content);
      const auto first = group.start_reduce_scatter(gradients.first(count / 2), std::span(mine).first(piece / 2));
      const auto second = group.start_reduce_scatter(gradients.last(count / 2), std::span(mine).last(piece / 2));
      second->wait();
      first->wait();
      write(gradients, std::vector<float>(count, -1.0f));
      const auto expected = [&](std::size_t index) {
        return static_cast<float>(size * (index % 1000) + round * (size * (size - 1) / 2));
      };
      for (std::size_t i = 0; i < piece / 2; ++i) {
        right = right && mine[i] == expected(rank * piece / 2 + i) &&
                mine[piece / 2 + i] == expected(count / 2 + rank * piece / 2 + i);
      }
      for (const std::span<float> all : {values, copies}) {
        core::copy_to_device(mine.data(), all.data() + rank * piece, piece * sizeof(float));
        group.start_all_gather(all)->wait();
        const std::vector<float> found = test::copy_of(all);
        for (std::size_t r = 0; r < size; ++r) {
          right = right && found[r * piece] == expected(r * piece / 2) &&
                  found[r * piece + piece - 1] == expected(count / 2 + (r + 1) * piece / 2 - 1);
        }
        group.barrier();  // all ranks have read; the next round writes again
      }
    }
    CHECK(everywhere(right));
  });
}

TEST_CASE("started messages arrive in order, both ways at once, and mix with those that wait") {
  on_all_kinds([](comm::Communicator& group) {
    group.reserve_messages(0);
    const int rank = group.rank(), size = group.size(), peer = rank ^ 1;
    const bool pairs = size % 2 == 0;
    constexpr std::size_t messages = 5, count = 3000;
    std::vector<test::Vector<float>> sent(messages), received(messages);
    std::vector<comm::RequestHandle> requests;
    for (std::size_t i = 0; pairs && i < messages; ++i) {
      sent[i].assign(count + i, static_cast<float>(10 * rank) + static_cast<float>(i));
      received[i].resize(count + i);
      requests.push_back(group.start_receive(std::span(received[i]), peer));
      requests.push_back(group.start_send(std::span<const float>(sent[i]), peer));
    }
    if (pairs) {
      requests.back()->wait();
      while (!requests.front()->test()) {
      }
    }
    requests.clear();  // destroying waits
    bool right = true;
    for (std::size_t i = 0; pairs && i < messages; ++i) {
      right =
          right && received[i] == test::Vector<float>(count + i, static_cast<float>(10 * peer) + static_cast<float>(i));
    }
    CHECK(everywhere(right));

    int token = rank, other = peer;
    const auto token_bytes = std::as_bytes(std::span(&token, 1));
    const auto other_bytes = std::as_writable_bytes(std::span(&other, 1));
    if (pairs) other = -1;
    if (pairs && rank % 2 == 0) {
      group.send(token_bytes, peer);
      group.start_receive(other_bytes, peer)->wait();
    } else if (pairs) {
      const auto request = group.start_receive(other_bytes, peer);
      group.start_send(token_bytes, peer)->wait();
      request->wait();
    }
    CHECK(everywhere(other == peer));
  });
}

TEST_CASE("messages with room reserved for them arrive in order, small and large, however many are under way") {
  on_all_kinds([](comm::Communicator& group) {
    const int rank = group.rank(), size = group.size();
    constexpr std::size_t room = 4000, messages = 1500;  // more than a ring has slots
    group.reserve_messages(sizeof(float));
    if (size == 1) return;
    const std::vector<float> one(1, 3.0f);
    std::vector<float> received_one(1);
    const auto request = group.start_send(std::as_bytes(std::span(one)), (rank + 1) % size);
    group.receive(std::as_writable_bytes(std::span(received_one)), (rank + size - 1) % size);
    CHECK(everywhere(received_one == one));
    group.reserve_messages(room * sizeof(float));  // the messages of a second, larger model
    group.reserve_messages(sizeof(float));
    std::vector<std::vector<float>> sent(7), received(7);
    std::vector<comm::RequestHandle> sends(7), receives(7);
    bool right = true;
    for (const int step : {1, size - 1}) {  // to the next rank, then to the one before
      const int to = (rank + step) % size, from = (rank + size - step) % size;
      const auto value = [](int of, std::size_t i) { return static_cast<float>(1000 * of) + static_cast<float>(i); };
      const auto check = [&](std::size_t i) {
        receives[i % 7]->wait();
        receives[i % 7].reset();
        const std::vector<float>& x = received[i % 7];
        right = right && x.front() == value(from, i) && x.back() == value(from, i);
      };
      for (std::size_t i = 0; i < messages; ++i) {
        // Up to seven on their way: some too many for the room, every fifth too large for it, one of a float.
        const std::size_t count = i % 5 == 0 ? room + 1 : i % 5 == 1 ? 1 : room - i % 100;
        if (i >= 7) check(i - 7);
        sends[i % 7].reset();  // waits
        received[i % 7].assign(count, -1.0f);
        sent[i % 7].assign(count, value(rank, i));
        sends[i % 7] = group.start_send(std::as_bytes(std::span(sent[i % 7])), to);
        receives[i % 7] = group.start_receive(std::as_writable_bytes(std::span(received[i % 7])), from);
        if (i % 3 == 0 && receives[(i + 3) % 7]) receives[(i + 3) % 7]->test();
      }
      group.barrier();  // messages may be under way
      receives.clear();
      receives.resize(7);
      sends.clear();
      sends.resize(7);
    }
    CHECK(everywhere(right));
    const std::vector<float> eight(8, 1.0f);
    std::vector<float> late(8);
    for (int i = 0; i < 8; ++i) sends.push_back(group.start_send(std::as_bytes(std::span(eight)), (rank + 1) % size));
    CHECK(everywhere(group.sum(1.0) == size));  // messages that were only sent do not block a collective
    for (int i = 0; i < 8; ++i) {
      late.assign(8, 0.0f);
      group.receive(std::as_writable_bytes(std::span(late)), (rank + size - 1) % size);
      right = right && late == eight;
    }
    CHECK(everywhere(right));
  });
}

TEST_CASE("a group of one has no peer to talk to") {
  const auto alone = comm::make_self_communicator();
  std::byte byte{};
  CHECK_THROWS_AS(alone->send(std::span(&byte, 1), 0), core::Error);
  CHECK_THROWS_AS(alone->start_receive(std::span(&byte, 1), 0), core::Error);
}

TEST_CASE("a group can be split further, and a rank may be in no part") {
  on_all_kinds([](comm::Communicator& group) {
    const auto alone = group.split(group.rank(), 0);
    const auto none = group.split(-1, 0);
    CHECK(everywhere(alone->size() == 1 && alone->rank() == 0 && none == nullptr && alone->sum(3.0) == 3.0));
  });
}

TEST_CASE("started messages complete whether a rank waits before or after the next collective") {
  on_all_kinds([](comm::Communicator& group) {
    const auto rank = static_cast<std::size_t>(group.rank()), size = static_cast<std::size_t>(group.size());
    const std::size_t piece = 1000;
    const std::span<std::byte> bytes = group.allocate(piece * size * sizeof(float), comm::Sharing::exposed);
    const std::span gradients(reinterpret_cast<float*>(bytes.data()), piece * size);
    test::Vector<float> plain = ramp(piece * size, static_cast<float>(rank)), mine(piece), also_mine(piece);
    core::copy_to_device(plain.data(), gradients.data(), gradients.size_bytes());
    const auto first = group.start_reduce_scatter(gradients, mine);
    const auto second = group.start_reduce_scatter(plain, also_mine);
    const bool early = rank % 2 == 0;
    if (early) first->wait();
    if (early) second->wait();
    const double sum = group.sum(1.0);
    if (!early) second->wait();
    if (!early) first->wait();
    const float expected = static_cast<float>(size * (rank * piece + piece - 1) + size * (size - 1) / 2);
    CHECK(everywhere(sum == static_cast<double>(size) && mine.back() == expected && also_mine == mine));
  });
}

TEST_CASE("many sums may be under way, of several sizes, and be waited for in any order") {
  on_all_kinds([](comm::Communicator& group) {
    const auto ranks = static_cast<std::size_t>(group.size());
    constexpr std::size_t sums = 30;
    std::vector<test::Vector<float>> data(sums), mine(sums);
    std::vector<comm::RequestHandle> requests;
    const std::int64_t reserved = group.reserve_sums(31);
    for (std::size_t k = 0; k < sums; ++k) {
      const std::size_t piece = 1 + k % 7 * 5;
      data[k].resize(piece * ranks);
      // Element i of piece r: 100·rank + 10·r + k; small integers, so sums are exact.
      for (std::size_t i = 0; i < data[k].size(); ++i) {
        data[k][i] = static_cast<float>(100 * static_cast<std::size_t>(group.rank()) + 10 * (i / piece) + k);
      }
      mine[k].resize(piece);
      requests.push_back(group.start_reduce_scatter(data[k], mine[k]));
      if (k % 3 == 0) requests[k / 2]->test();
    }
    int wrong = 0;
    for (std::size_t k = sums; k-- > 0;) {
      requests[k]->wait();
      const std::size_t others = 100 * (ranks * (ranks - 1) / 2);
      const auto expected = static_cast<float>(others + ranks * (10 * static_cast<std::size_t>(group.rank()) + k));
      for (const float x : mine[k]) wrong += x != expected;
    }
    CHECK(everywhere(wrong == 0));
    CHECK(everywhere(group.reserve_sums(10) == reserved));  // the memory has not grown
  });
}

TEST_CASE("sums of data with known zeros") {
  const auto rank = static_cast<std::size_t>(world().rank()), size = static_cast<std::size_t>(world().size());
  constexpr std::size_t line = comm::ZeroLines::line, lines_of_piece = 50;
  const std::size_t lines = lines_of_piece * size;
  const auto shared = [](std::size_t bytes) { return world().allocate(bytes, comm::Sharing::exposed).data(); };
  const std::span<float> data(reinterpret_cast<float*>(shared(lines * line * sizeof(float))), lines * line);
  const std::span<std::uint8_t> marks(reinterpret_cast<std::uint8_t*>(shared(lines)), lines);
  const test::Vector<float> private_data(data.size());  // a group may be unable to use zeros of such memory
  test::Vector<std::uint8_t> mine_marks(lines_of_piece);
  test::Vector<float> mine(lines_of_piece * line);
  test::SettledCommunicator group(world());
  bool right = true;
  for (std::size_t round = 0; round < 5; ++round) {
    // Each rank touches its own few lines, in places that wander; all ranks touch line 3 of every piece.
    std::vector<float> content(data.size());
    std::vector<std::uint8_t> marked(lines);
    for (std::size_t l = 0; l < lines; ++l) {
      if ((l + rank + round) % 7 != 0 && l % lines_of_piece != 3) continue;
      marked[l] = 1;
      for (std::size_t i = 0; i < line; ++i) content[l * line + i] = static_cast<float>(l * line + i + rank + round);
    }
    write(data, content);
    write(marks, marked);
    test::Vector<float> expected(content.begin(), content.end());
    group.all_reduce(expected, comm::Reduction::sum);
    group.start_reduce_scatter(data, mine, {marks.data(), mine_marks.data()})->wait();
    for (std::size_t i = 0; i < mine.size(); ++i) {
      right = right && mine[i] == expected[rank * mine.size() + i] && (mine[i] == 0.0f || mine_marks[i / line] == 1);
    }
  }
  CHECK(everywhere(right));
  group.start_reduce_scatter(private_data, mine, {marks.data(), mine_marks.data()})->wait();
  CHECK(everywhere(mine == test::Vector<float>(mine.size()) && mine_marks[0] == 1));
}
