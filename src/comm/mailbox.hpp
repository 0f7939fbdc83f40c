// Messages between neighbours of a group whose ranks share a node, by way of memory that both map: the sender copies
// into a slot and goes on, the receiver copies out of it when it comes to it. Nobody has to be inside the library for a
// message to move, while one that MPI hands over needs both sides' attention several times.
//
// Each rank has an outgoing channel to the next rank and one to the rank before (of two ranks: one). A message whose
// channel has no slot left goes by MPI, and the channel says so: so a send never waits, and none is ever in the way of
// a collective. Messages of a channel are taken in order.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/request_pool.hpp"
#include "node_memory.hpp"

namespace bert_hpc::comm {

class MailReceive;

class Mailbox {
 public:
  /// Collective over the group of `memory`, which must outlive the box. Null where the memory could not be had.
  static std::unique_ptr<Mailbox> make(MPI_Comm group, NodeMemory& memory, std::size_t message_bytes);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// What make() takes on each rank.
  static std::int64_t bytes(std::size_t message_bytes, int ranks);

  /// Goes a message of this size to or from this rank this way? Both ends say the same.
  bool carries(std::size_t size, int peer) const;

  /// As Communicator::start_…, of messages that it carries. True: the data was copied and may be overwritten; else it
  /// goes by MPI, and `by_mpi` is its request.
  bool send(std::span<const std::byte> data, int peer, MPI_Request& by_mpi);
  RequestHandle start_receive(std::span<std::byte> data, int peer);

  /// Takes what has come, of all channels.
  void progress();

 private:
  friend class MailReceive;
  static constexpr std::size_t slots = 2, most_under_way = 1024;
  static constexpr std::uint8_t by_mpi_mark = 0xff;
  static constexpr int tag = 3;

  /// In the sender's memory, before the slots.
  struct Header {
    alignas(128) std::atomic<std::uint64_t> sent;   // messages up to this one are in their slots, or given to MPI
    alignas(128) std::atomic<std::uint64_t> taken;  // the receiver has done with messages up to this one
    alignas(128) std::uint8_t slot_of[most_under_way];
  };
  struct Outgoing {
    Header* header = nullptr;
    std::byte* data = nullptr;  // (slots, slot bytes)
    std::uint64_t sent = 0;
    std::uint64_t user[slots] = {};  // last message of each slot
  };
  struct Arrival {
    std::span<std::byte> data;
    MPI_Request request = MPI_REQUEST_NULL;
    bool done = false;
  };
  struct Incoming {
    Header* header = nullptr;
    const std::byte* data = nullptr;
    int peer = 0;
    std::uint64_t posted = 0, taken = 0;
    std::vector<Arrival> arrivals;  // a ring: message n at n modulo its size
  };

  Mailbox(MPI_Comm group, NodeMemory& memory, int rank, int size, std::size_t slot_bytes);
  int direction(int from, int to) const { return (from + 1) % size_ == to ? 0 : 1; }
  void take(Incoming& from);
  bool finished(Incoming& from, std::uint64_t message);

  MPI_Comm group_;
  NodeMemory& memory_;
  int rank_, size_;
  std::size_t slot_bytes_;
  Outgoing out_[2];  // to the next rank, to the one before
  Incoming in_[2];   // by the sender's direction: from the one before, from the next
  RequestPool<MailReceive> requests_;
};

}  // namespace bert_hpc::comm
