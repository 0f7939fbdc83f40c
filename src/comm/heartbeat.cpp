#include "bert_hpc/comm/heartbeat.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "bert_hpc/core/descriptor.hpp"

namespace bert_hpc::comm {
namespace {

using core::Descriptor;
using Clock = std::chrono::steady_clock;

/// The addresses of rank 0, most likely first. Plain data, broadcast as bytes.
struct Meeting {
  static constexpr std::size_t most = 16;
  core::HashKey key = {};
  std::uint16_t port = 0;  // as in a datagram
  std::uint32_t count = 0;
  std::uint32_t addresses[most] = {};
};

sockaddr_in address_of(std::uint32_t address, std::uint16_t port) {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_addr.s_addr = address;
  result.sin_port = port;
  return result;
}

Descriptor bound_socket() {
  Descriptor made(::socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_in any = address_of(htonl(INADDR_ANY), 0);
  if (made.get() >= 0 && ::bind(made.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) != 0) {
    return Descriptor(-1);
  }
  return made;
}

/// Adds the addresses of this host's interfaces that are up; first the loopback, for ranks of the same host.
void add_addresses(Meeting& meeting) {
  meeting.addresses[meeting.count++] = htonl(INADDR_LOOPBACK);
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return;
  for (const ifaddrs* i = all; i != nullptr && meeting.count < Meeting::most; i = i->ifa_next) {
    if (i->ifa_addr == nullptr || i->ifa_addr->sa_family != AF_INET) continue;
    if ((i->ifa_flags & IFF_UP) == 0 || (i->ifa_flags & IFF_LOOPBACK) != 0) continue;
    sockaddr_in address{};
    std::memcpy(&address, i->ifa_addr, sizeof address);
    meeting.addresses[meeting.count++] = address.sin_addr.s_addr;
  }
  ::freeifaddrs(all);
}

class DatagramHeartbeat : public Heartbeat {
 public:
  DatagramHeartbeat(Descriptor socket, Descriptor wakes, const Meeting& meeting, int rank, int ranks)
      : socket_(std::move(socket)),
        wakes_(std::move(wakes)),
        meeting_(meeting),
        rank_(rank),
        peers_(rank == 0 ? static_cast<std::size_t>(ranks) : 1) {}

  void send(const HeartbeatState& own) override {
    if (rank_ == 0) {
      for (std::size_t r = 1; r < peers_.size(); ++r) {
        if (peers_[r].number != 0) send_to(peers_[r].address, static_cast<int>(r), own);
      }
      return;
    }
    // To the address that answered last. After several datagrams without an answer, to all addresses.
    constexpr int patience = 4;
    if (peers_[0].number != 0 && unanswered_ < patience) {
      ++unanswered_;
      return send_to(peers_[0].address, 0, own);
    }
    for (std::uint32_t i = 0; i < meeting_.count; ++i) {
      send_to(address_of(meeting_.addresses[i], meeting_.port), 0, own);
    }
  }

  void listen(std::chrono::milliseconds time, const HeartbeatState& own, const Heard& heard) override {
    // In batches, so that not every datagram wakes this thread, but no larger than the socket's buffer holds.
    constexpr std::int64_t held = 64;
    const std::int64_t parts = 1 + static_cast<std::int64_t>(peers_.size()) / held;
    const Clock::time_point begin = Clock::now();
    for (std::int64_t part = 1; part <= parts; ++part) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(begin + time * part / parts - Clock::now());
      pollfd wakes{wakes_.get(), POLLIN, 0};
      if (::poll(&wakes, 1, static_cast<int>(std::max<std::int64_t>(0, left.count()))) > 0) return;
      receive_all(own, heard);
    }
  }

  void wake() override {
    const std::uint64_t one = 1;
    static_cast<void>(!::write(wakes_.get(), &one, sizeof one));  // fails only if it was called very often already
  }

 private:
  struct Peer {
    sockaddr_in address{};     // of its last datagram
    std::uint64_t number = 0;  // of its last heartbeat; 0: none yet
  };

  void send_to(const sockaddr_in& address, int to, const HeartbeatState& own) {
    SignedHeartbeat heartbeat{.from = rank_, .to = to, .number = ++sent_, .state = own, .code = 0};
    heartbeat.code = code_of(heartbeat, meeting_.key);
    ::sendto(socket_.get(), &heartbeat, sizeof heartbeat, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&address),
             sizeof address);
  }

  void receive_all(const HeartbeatState& own, const Heard& heard) {
    // Bounded, so that a flood of datagrams cannot keep this thread from its other work.
    for (int i = 0; i < 65536; ++i) {
      SignedHeartbeat heartbeat;
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const ssize_t bytes = ::recvfrom(socket_.get(), &heartbeat, sizeof heartbeat, MSG_TRUNC,
                                       reinterpret_cast<sockaddr*>(&from), &length);
      if (bytes < 0) return;
      if (bytes == static_cast<ssize_t>(sizeof heartbeat) && length == sizeof from) take(heartbeat, from, own, heard);
    }
  }

  void take(SignedHeartbeat& heartbeat, const sockaddr_in& from, const HeartbeatState& own, const Heard& heard) {
    // Rank 0 listens to the others, the others to rank 0.
    if (heartbeat.from == rank_ || heartbeat.from < 0 || heartbeat.from >= static_cast<std::int64_t>(peers_.size()))
      return;
    Peer& peer = peers_[static_cast<std::size_t>(heartbeat.from)];
    if (!is_genuine(heartbeat, meeting_.key, rank_, peer.number)) return;
    peer = {from, heartbeat.number};
    unanswered_ = 0;
    heartbeat.state.section[sizeof heartbeat.state.section - 1] = 0;
    if (rank_ == 0 && heartbeat.state.ended == 0) send_to(from, heartbeat.from, own);
    heard(heartbeat.from, heartbeat.state);
  }

  Descriptor socket_, wakes_;
  Meeting meeting_;
  int rank_;
  std::vector<Peer> peers_;  // of rank 0: all; of others: rank 0
  std::uint64_t sent_ = 0;
  int unanswered_ = 0;  // heartbeats to rank 0 since its last answer
};

}  // namespace

std::unique_ptr<Heartbeat> Heartbeat::make(Communicator& world) {
  Descriptor socket = bound_socket(), wakes(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  bool good = socket.get() >= 0 && wakes.get() >= 0;
  Meeting meeting;
  if (world.rank() == 0 && good) {
    sockaddr_in own{};
    socklen_t length = sizeof own;
    good = ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
           ::getrandom(meeting.key.data(), sizeof meeting.key, 0) == static_cast<ssize_t>(sizeof meeting.key);
    meeting.port = own.sin_port;
    add_addresses(meeting);
  }
  if (world.any(!good)) return nullptr;
  world.broadcast(std::as_writable_bytes(std::span(&meeting, 1)), 0);
  return std::make_unique<DatagramHeartbeat>(std::move(socket), std::move(wakes), meeting, world.rank(), world.size());
}

}  // namespace bert_hpc::comm
