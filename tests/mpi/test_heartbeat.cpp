// Heartbeats: rank 0 receives those of all other ranks, they receive its answers, and datagrams of other runs are
// ignored.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <fstream>
#include <sstream>
#include <vector>

#include "bert_hpc/comm/heartbeat.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"

using namespace bert_hpc::comm;

namespace {

int detour = -1;  // a stranger's socket through which signs go out

}  // namespace

/// Replaces the system's function.
extern "C" ssize_t sendto(int socket, const void* bytes, size_t size, int flags, const sockaddr* to, socklen_t length) {
  return syscall(SYS_sendto, detour >= 0 ? detour : socket, bytes, size, flags, to, length);
}

namespace {

HeartbeatState sign(std::int64_t step) {
  HeartbeatState result{.step = step, .section = {}, .ended = 0};
  std::strcpy(result.section, "forward");
  return result;
}

/// Ports of all UDP sockets of this host.
std::vector<std::uint16_t> ports() {
  std::vector<std::uint16_t> found;
  std::ifstream table("/proc/net/udp");
  std::string line;
  std::getline(table, line);
  while (std::getline(table, line)) {
    const std::size_t colon = line.find(':', line.find(':') + 1);
    found.push_back(static_cast<std::uint16_t>(std::stoul(line.substr(colon + 1, 4), nullptr, 16)));
  }
  return found;
}

}  // namespace

TEST_CASE("rank 0 hears all others and they hear it") {
  const auto world = make_world_communicator();
  const auto heartbeat = Heartbeat::make(*world);
  REQUIRE(heartbeat != nullptr);
  std::vector<std::int64_t> steps(static_cast<std::size_t>(world->size()), -1);
  int bad = 0, ended = 0;
  const auto heard = [&](int rank, const HeartbeatState& said) {
    steps[static_cast<std::size_t>(rank)] = said.step;
    bad += std::strcmp(said.section, "forward") != 0 && said.ended == 0;
    ended += said.ended != 0;
  };
  // Datagrams may be lost: it takes a millisecond as a rule.
  const auto is_missing = [&] {
    if (world->rank() != 0) return steps[0] < 0;
    for (std::size_t r = 1; r < steps.size(); ++r) {
      if (steps[r] < 0) return true;
    }
    return false;
  };
  while (world->any(is_missing())) {  // CTest ends a test that hangs
    if (world->rank() != 0) heartbeat->send(sign(100 + world->rank()));
    heartbeat->listen(std::chrono::milliseconds(10), sign(100 + world->rank()), heard);
  }
  for (std::size_t r = 0; r < steps.size(); ++r) {
    if (steps[r] >= 0) CHECK(steps[r] == 100 + static_cast<std::int64_t>(r));
  }
  CHECK(bad == 0);

  // Strangers: wrong lengths, and the right form without the key, at every port.
  if (world->rank() == 0) {
    const int stranger = socket(AF_INET, SOCK_DGRAM, 0);
    for (const std::uint16_t port : ports()) {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      to.sin_port = htons(port);
      std::vector<char> bytes(4096, 1);
      for (const std::size_t size : {0, 1, 16, 23, 79, 80, 81, 88, 4096}) {
        sendto(stranger, bytes.data(), size, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
      }
      for (int rank = 1; rank < world->size(); ++rank) {
        for (const bool up : {true, false}) {
          SignedHeartbeat forged{
              .from = up ? rank : 0, .to = up ? 0 : rank, .number = 1u << 30, .state = sign(7), .code = 1};
          sendto(stranger, &forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
          forged.code = code_of(forged, {});
          sendto(stranger, &forged, sizeof forged, 0, reinterpret_cast<sockaddr*>(&to), sizeof to);
        }
      }
    }
    close(stranger);
  }
  world->barrier();
  const std::vector<std::int64_t> before = steps;
  heartbeat->listen(std::chrono::milliseconds(50), sign(100 + world->rank()), heard);
  CHECK(steps == before);
  CHECK(ended == 0);
  world->barrier();
}

TEST_CASE("a wake-up ends listening") {
  const auto world = make_world_communicator();
  const auto heartbeat = Heartbeat::make(*world);
  REQUIRE(heartbeat != nullptr);
  heartbeat->wake();
  heartbeat->listen(std::chrono::hours(1), sign(1), [](int, const HeartbeatState&) {});  // it returns
}

TEST_CASE("answers that come through another address, which later closes, do not make a rank silent") {
  const auto world = make_world_communicator();
  const auto heartbeat = Heartbeat::make(*world);
  REQUIRE(heartbeat != nullptr);
  // The detour's socket forwards rank 0's answers, and keeps datagrams that are sent to it.
  if (world->rank() == 0) detour = socket(AF_INET, SOCK_DGRAM, 0);
  std::vector<int> signs(static_cast<std::size_t>(world->size()), 0);
  const auto heard = [&](int rank, const HeartbeatState&) { ++signs[static_cast<std::size_t>(rank)]; };
  const auto is_missing = [&](int enough) {
    if (world->rank() != 0) return signs[0] < enough;
    return std::any_of(signs.begin() + 1, signs.end(), [&](int count) { return count < enough; });
  };
  const auto beat = [&] {
    if (world->rank() != 0) heartbeat->send(sign(1));
    heartbeat->listen(std::chrono::milliseconds(10), sign(1), heard);
  };
  while (world->any(is_missing(1))) beat();
  if (world->rank() == 0) {
    close(detour);
    detour = -1;
  }
  // Not only datagrams on their way: rank 0 hears a rank for as long as the rank sends.
  while (world->any(is_missing(100))) beat();
  CHECK(!is_missing(100));
}
