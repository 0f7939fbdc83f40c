// Heartbeats between ranks, independent of MPI, which cannot tell a slow rank from a dead one: while the main thread
// waits in MPI for a stopped rank, another thread still receives heartbeats. They are small UDP datagrams over IPv4,
// which need no connection: every rank sends to rank 0, which answers each with its own. They are signed with a key
// that only the ranks of this run know (signed_heartbeat.hpp). Only rank 0 has to be reachable, by any of its
// addresses. A rank whose datagrams never arrive may still be alive.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/signed_heartbeat.hpp"

namespace bert_hpc::comm {

class Heartbeat {
 public:
  using Heard = std::function<void(int rank, const HeartbeatState&)>;

  /// Collective. Null, on every rank, where some rank gets no socket.
  static std::unique_ptr<Heartbeat> make(Communicator& world);

  virtual ~Heartbeat() = default;

  /// To rank 0; rank 0: to all ranks that it has received a heartbeat from. Lost datagrams are not sent again.
  virtual void send(const HeartbeatState& own) = 0;
  /// Waits for this time, or until another thread calls wake(), and calls `heard` for each heartbeat that arrived: on
  /// rank 0 from all others, which get `own` as an answer; on the others from rank 0. Does not allocate.
  virtual void listen(std::chrono::milliseconds time, const HeartbeatState& own, const Heard& heard) = 0;
  virtual void wake() = 0;
};

}  // namespace bert_hpc::comm
