// The common suite of communicators: run under 1, 2 and 4 ranks. Every check is a verdict reduced over the ranks, so
// that one rank's failure cannot leave the others waiting in the next collective.
#include <catch2/catch_test_macros.hpp>
#include <numeric>
#include <vector>

#include "bert_hpc/comm/mpi_communicator.hpp"

using namespace bert_hpc;

namespace {

comm::Communicator& world() {
  static const auto group = comm::make_world_communicator();
  return *group;
}

/// True where it holds on every rank.
bool everywhere(bool holds) {
  return !world().any(!holds);
}

std::vector<float> ramp(std::size_t count, float start) {
  std::vector<float> x(count);
  std::iota(x.begin(), x.end(), start);
  return x;
}

}  // namespace

TEST_CASE("all_reduce gives sums and extremes on every rank") {
  const int rank = world().rank(), size = world().size();
  std::vector<float> x = {static_cast<float>(rank), 1.0f};
  world().all_reduce(x, comm::Reduction::sum);
  CHECK(everywhere(x[0] == static_cast<float>(size * (size - 1) / 2) && x[1] == static_cast<float>(size)));
  CHECK(everywhere(world().maximum(double(rank)) == size - 1 && world().minimum(double(rank)) == 0.0));
  CHECK(everywhere(world().sum(std::int64_t{rank}) == size * (size - 1) / 2));
  CHECK(everywhere(world().any(rank == size - 1) && !world().any(false)));
}

TEST_CASE("many sums may be under way, of several sizes, and be waited for in any order") {
  const auto ranks = static_cast<std::size_t>(world().size());
  constexpr std::size_t sums = 30;
  std::vector<std::vector<float>> data(sums), mine(sums);
  std::vector<comm::RequestHandle> requests;
  const std::int64_t reserved = world().reserve_sums(31);
  for (std::size_t k = 0; k < sums; ++k) {
    const std::size_t piece = 1 + k % 7 * 5;
    data[k].resize(piece * ranks);
    // Element i of piece r: 100·rank + 10·r + k; small integers, so sums are exact.
    for (std::size_t i = 0; i < data[k].size(); ++i) {
      data[k][i] = static_cast<float>(100 * static_cast<std::size_t>(world().rank()) + 10 * (i / piece) + k);
    }
    mine[k].resize(piece);
    requests.push_back(world().start_reduce_scatter(data[k], mine[k]));
    if (k % 3 == 0) requests[k / 2]->test();
  }
  int wrong = 0;
  for (std::size_t k = sums; k-- > 0;) {
    requests[k]->wait();
    const std::size_t others = 100 * (ranks * (ranks - 1) / 2);
    const auto expected = static_cast<float>(others + ranks * (10 * static_cast<std::size_t>(world().rank()) + k));
    for (const float x : mine[k]) wrong += x != expected;
  }
  CHECK(everywhere(wrong == 0));
  CHECK(everywhere(world().reserve_sums(10) == reserved));  // nothing grew
}

TEST_CASE("reduce_scatter gives each rank its piece of the sum, and all_gather puts pieces together") {
  const auto rank = static_cast<std::size_t>(world().rank()), size = static_cast<std::size_t>(world().size());
  const std::size_t piece = 1000;
  const std::vector<float> data = ramp(piece * size, static_cast<float>(rank));
  std::vector<float> mine(piece);
  world().start_reduce_scatter(data, mine)->wait();
  bool right = true;
  for (std::size_t i = 0; i < piece; ++i) {
    right = right && mine[i] == static_cast<float>(size * (rank * piece + i) + size * (size - 1) / 2);
  }
  CHECK(everywhere(right));

  std::vector<float> all(piece * size);
  std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(rank * piece));
  const auto request = world().start_all_gather(all);
  while (!request->test()) {
  }
  right = true;
  for (std::size_t i = 0; i < all.size(); ++i) {
    right = right && all[i] == static_cast<float>(size * i + size * (size - 1) / 2);
  }
  CHECK(everywhere(right));
}

TEST_CASE("texts, broadcasts and point-to-point messages arrive") {
  const int rank = world().rank(), size = world().size();
  const std::vector<std::string> texts =
      world().all_gather("rank " + std::to_string(rank) + std::string(static_cast<std::size_t>(rank), '!'));
  bool right = static_cast<int>(texts.size()) == size;
  for (int r = 0; right && r < size; ++r) {
    right = texts[static_cast<std::size_t>(r)] ==
            "rank " + std::to_string(r) + std::string(static_cast<std::size_t>(r), '!');
  }
  CHECK(everywhere(right));
  CHECK(everywhere(world().broadcast(rank == 0 ? "from zero" : "", 0) == "from zero"));
  if (size % 2 == 0) {
    const std::vector<float> send = ramp(10, static_cast<float>(rank));
    std::vector<float> received(10);
    world().exchange(send, received, rank ^ 1);
    CHECK(everywhere(received[9] == static_cast<float>((rank ^ 1) + 9)));
  }
  if (size > 1) {
    int token = rank;
    if (rank == 0) world().send(std::as_bytes(std::span(&token, 1)), size - 1);
    if (rank == size - 1) world().receive(std::as_writable_bytes(std::span(&token, 1)), 0);
    CHECK(everywhere(rank == size - 1 ? token == 0 : token == rank));
  }
}
TEST_CASE("sums and gathers over memory that the group allocated") {
  const auto rank = static_cast<std::size_t>(world().rank()), size = static_cast<std::size_t>(world().size());
  const std::size_t piece = 10000, count = piece * size;  // several blocks of the sum
  const auto floats = [&](comm::Sharing sharing) {
    const std::span<std::byte> bytes = world().allocate(count * sizeof(float), sharing);
    return std::span(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
  };
  const std::span<float> gradients = floats(comm::Sharing::exposed), values = floats(comm::Sharing::replicated),
                         copies = floats(comm::Sharing::exposed);
  CHECK(everywhere(gradients.size() == count && gradients[0] == 0.0f && values[count - 1] == 0.0f));
  std::vector<float> mine(piece);
  bool right = true;
  for (std::size_t round = 0; round < 20; ++round) {  // the data changes as soon as an operation has ended
    for (std::size_t i = 0; i < count; ++i) gradients[i] = static_cast<float>(i % 1000 + round * rank);
    const auto first = world().start_reduce_scatter(gradients.first(count / 2), std::span(mine).first(piece / 2));
    const auto second = world().start_reduce_scatter(gradients.last(count / 2), std::span(mine).last(piece / 2));
    second->wait();
    first->wait();
    std::fill(gradients.begin(), gradients.end(), -1.0f);
    const auto expected = [&](std::size_t place) {
      return static_cast<float>(size * (place % 1000) + round * (size * (size - 1) / 2));
    };
    for (std::size_t i = 0; i < piece / 2; ++i) {
      right = right && mine[i] == expected(rank * piece / 2 + i) &&
              mine[piece / 2 + i] == expected(count / 2 + rank * piece / 2 + i);
    }
    for (const std::span<float> all : {values, copies}) {
      std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(rank * piece));
      world().start_all_gather(all)->wait();
      for (std::size_t r = 0; r < size; ++r) {
        right = right && all[r * piece] == expected(r * piece / 2) &&
                all[r * piece + piece - 1] == expected(count / 2 + (r + 1) * piece / 2 - 1);
      }
      world().barrier();  // everybody has read; the next round writes again
    }
  }
  CHECK(everywhere(right));
}
