// Messages between neighbours of a group whose ranks share a node, through memory that both map: the sender copies into
// a slot and continues; the receiver later copies out of it. A message needs no rank inside the MPI library, while a
// message through MPI needs the attention of both sides several times.
//
// Each rank has an outgoing channel to the next rank and one to the previous rank (with two ranks: one channel). If a
// channel has no free slot, the message goes through MPI and the channel records this. A send therefore never blocks
// and cannot delay a collective. Messages of a channel are received in order.
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
  /// Collective over the group of `memory`, which must outlive the mailbox. Null if the memory cannot be allocated.
  static std::unique_ptr<Mailbox> make(MPI_Comm group, NodeMemory& memory, std::size_t message_bytes);
  ~Mailbox();
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;

  /// Bytes that make() allocates on each rank.
  static std::int64_t bytes(std::size_t message_bytes, int ranks);
  std::size_t message_bytes() const { return slot_bytes_; }  ///< size of the largest message

  /// Whether a message of this size to or from this rank uses the mailbox. Both ends compute the same answer.
  bool carries(std::size_t size, int peer) const;

  /// Like Communicator::start_…, for messages that it carries. Returns true if the data was copied and may be
  /// overwritten; otherwise the message goes through MPI, and `by_mpi` is its request.
  bool send(std::span<const std::byte> data, int peer, MPI_Request& by_mpi);
  RequestHandle start_receive(std::span<std::byte> data, int peer);

  /// Receives all messages that have arrived, on all channels.
  void progress();

 private:
  friend class MailReceive;
  static constexpr std::size_t slots = 2, max_under_way = 1024;
  static constexpr std::uint8_t by_mpi_mark = 0xff;
  static constexpr int tag = 3;

  /// Located in the sender's memory, before the slots.
  struct Header {
    alignas(128) std::atomic<std::uint64_t> sent;   // messages up to this one are in slots or given to MPI
    alignas(128) std::atomic<std::uint64_t> taken;  // the receiver has finished messages up to this one
    alignas(128) std::uint8_t slot_of[max_under_way];
  };
  struct Outgoing {
    Header* header = nullptr;
    std::byte* data = nullptr;  // (slots, slot bytes)
    std::uint64_t sent = 0;
    std::uint64_t user[slots] = {};  // last message in each slot
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
    std::vector<Arrival> arrivals;  // a ring: message n is at n modulo its size
  };

  Mailbox(MPI_Comm group, NodeMemory& memory, int rank, int size, std::size_t slot_bytes);
  int direction(int from, int to) const { return (from + 1) % size_ == to ? 0 : 1; }
  void take(Incoming& from);
  bool finished(Incoming& from, std::uint64_t message);

  MPI_Comm group_;
  NodeMemory& memory_;
  int rank_, size_;
  std::size_t slot_bytes_;
  Outgoing out_[2];  // to the next rank, to the previous rank
  Incoming in_[2];   // by the sender's direction: from the previous rank, from the next rank
  RequestPool<MailReceive> requests_;
};

}  // namespace bert_hpc::comm
