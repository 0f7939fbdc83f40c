// Signs of life between ranks, apart from MPI, which cannot tell a rank that is slow from one that is gone: while the
// main thread waits in MPI for a rank that was stopped, another thread still hears who is alive. Small UDP datagrams
// over IPv4, as they need no connection to hang on: every rank sends to rank 0, which answers each with its own. A
// code under a key that only the ranks of this run know keeps others out (sealed_sign.hpp). Only rank 0 need be
// reachable, by any of its addresses; a rank whose datagrams do not arrive is never heard, which tells nothing about
// it.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/sealed_sign.hpp"

namespace bert_hpc::comm {

class Heartbeat {
 public:
  using Heard = std::function<void(int rank, const SignOfLife&)>;

  /// Collective. Null, on every rank, where some rank gets no socket.
  static std::unique_ptr<Heartbeat> make(Communicator& world);

  virtual ~Heartbeat() = default;

  /// To rank 0; rank 0: to all that it has heard of. What is lost on the way is not sent again.
  virtual void send(const SignOfLife& own) = 0;
  /// Waits for so long, or until wake() is called by another thread, and calls `heard` for each sign that came: on rank
  /// 0 of all others, which get `own` as an answer; elsewhere of rank 0. Does not allocate.
  virtual void listen(std::chrono::milliseconds time, const SignOfLife& own, const Heard& heard) = 0;
  virtual void wake() = 0;
};

}  // namespace bert_hpc::comm
