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

struct Datagram {
  std::uint64_t secret[2] = {};
  std::int64_t rank = 0;
  SignOfLife sign;
};

/// Where rank 0 may be reached, most likely first. Plain data, broadcast as bytes.
struct Meeting {
  static constexpr std::size_t most = 16;
  std::uint64_t secret[2] = {};
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

/// Of this host's interfaces that are up; the loopback, which serves ranks of the same host, first.
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
      : socket_(std::move(socket)), wakes_(std::move(wakes)), meeting_(meeting), rank_(rank) {
    if (rank == 0) peers_.resize(static_cast<std::size_t>(ranks));
  }

  void send(const SignOfLife& own) override {
    if (rank_ == 0) {
      for (const sockaddr_in& peer : peers_) {
        if (peer.sin_port != 0) send_to(peer, own);
      }
      return;
    }
    if (found_) return send_to(centre_, own);
    for (std::uint32_t i = 0; i < meeting_.count; ++i) {
      send_to(address_of(meeting_.addresses[i], meeting_.port), own);
    }
  }

  void listen(std::chrono::milliseconds time, const SignOfLife& own, const Heard& heard) override {
    // Many at a time rather than each as it comes, which would wake this thread for each; but not more than what the
    // socket's memory surely holds.
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
    static_cast<void>(!::write(wakes_.get(), &one, sizeof one));  // can fail only where it was done often already
  }

 private:
  void send_to(const sockaddr_in& peer, const SignOfLife& own) const {
    Datagram datagram{.secret = {meeting_.secret[0], meeting_.secret[1]}, .rank = rank_, .sign = own};
    ::sendto(socket_.get(), &datagram, sizeof datagram, MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&peer),
             sizeof peer);
  }

  void receive_all(const SignOfLife& own, const Heard& heard) {
    // Bounded, so that a flood from elsewhere cannot keep this thread from its other work.
    for (int i = 0; i < 65536; ++i) {
      Datagram datagram;
      sockaddr_in from{};
      socklen_t length = sizeof from;
      const ssize_t bytes =
          ::recvfrom(socket_.get(), &datagram, sizeof datagram, MSG_TRUNC, reinterpret_cast<sockaddr*>(&from), &length);
      if (bytes < 0) return;
      if (bytes != static_cast<ssize_t>(sizeof datagram) || length != sizeof from) continue;
      if (!std::equal(datagram.secret, datagram.secret + 2, meeting_.secret)) continue;
      take(datagram, from, own, heard);
    }
  }

  void take(Datagram& datagram, const sockaddr_in& from, const SignOfLife& own, const Heard& heard) {
    datagram.sign.section[sizeof datagram.sign.section - 1] = 0;
    if (rank_ != 0) {
      if (datagram.rank != 0) return;
      centre_ = from;
      found_ = true;
    } else {
      if (datagram.rank <= 0 || datagram.rank >= static_cast<std::int64_t>(peers_.size())) return;
      peers_[static_cast<std::size_t>(datagram.rank)] = from;
      if (datagram.sign.ended == 0) send_to(from, own);
    }
    heard(static_cast<int>(datagram.rank), datagram.sign);
  }

  Descriptor socket_, wakes_;
  Meeting meeting_;
  int rank_;
  bool found_ = false;  // an address by which rank 0 answers
  sockaddr_in centre_{};
  std::vector<sockaddr_in> peers_;  // rank 0: where the others were heard from
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
           ::getrandom(meeting.secret, sizeof meeting.secret, 0) == static_cast<ssize_t>(sizeof meeting.secret);
    meeting.port = own.sin_port;
    add_addresses(meeting);
  }
  if (world.any(!good)) return nullptr;
  world.broadcast(std::as_writable_bytes(std::span(&meeting, 1)), 0);
  return std::make_unique<DatagramHeartbeat>(std::move(socket), std::move(wakes), meeting, world.rank(), world.size());
}

}  // namespace bert_hpc::comm
