#include "mailbox.hpp"

#include <cstring>
#include <new>

#include "bert_hpc/core/error.hpp"
#include "check_mpi.hpp"

namespace bert_hpc::comm {
namespace {

constexpr std::size_t page = 4096;

std::size_t rounded(std::size_t bytes) {
  return (bytes + page - 1) / page * page;
}

int channels(int ranks) {
  return ranks == 2 ? 1 : 2;
}

}  // namespace

class MailReceive : public Request {
 public:
  MailReceive(Mailbox& box, Mailbox::Incoming& from, std::uint64_t message)
      : box_(box), from_(from), message_(message) {}
  ~MailReceive() override {
    if (!fails_alone()) MailReceive::wait();
  }
  MailReceive(const MailReceive&) = delete;
  MailReceive& operator=(const MailReceive&) = delete;
  bool test() override { return ended_ || (ended_ = box_.finished(from_, message_)); }
  void wait() override {
    for (int spins = 1; !MailReceive::test(); ++spins) {
      box_.memory_.progress();
      box_.memory_.breathe(spins);
    }
  }

 private:
  Mailbox& box_;
  Mailbox::Incoming& from_;
  std::uint64_t message_;
  bool ended_ = false;  // its position in the ring may then belong to another message
};

Mailbox::Mailbox(MPI_Comm group, NodeMemory& memory, int rank, int size, std::size_t slot_bytes)
    : group_(group), memory_(memory), rank_(rank), size_(size), slot_bytes_(slot_bytes) {}
Mailbox::~Mailbox() = default;

std::int64_t Mailbox::bytes(std::size_t message_bytes, int ranks) {
  const std::size_t channel = rounded(sizeof(Header)) + slots * rounded(message_bytes);
  return static_cast<std::int64_t>(channel) * channels(ranks);
}

std::unique_ptr<Mailbox> Mailbox::make(MPI_Comm group, NodeMemory& memory, std::size_t message_bytes) {
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(group, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(group, &size), "MPI_Comm_size");
  const std::span<std::byte> mine =
      memory.allocate(static_cast<std::size_t>(bytes(message_bytes, size)), Sharing::exposed);
  if (mine.empty()) return nullptr;
  std::unique_ptr<Mailbox> box(new Mailbox(group, memory, rank, size, rounded(message_bytes)));
  const std::size_t header = rounded(sizeof(Header)), channel = header + slots * box->slot_bytes_;
  for (int d = 0; d < channels(size); ++d) {
    std::byte* const out = mine.data() + static_cast<std::size_t>(d) * channel;
    box->out_[d].header = new (out) Header{};
    box->out_[d].data = out + header;
    Incoming& in = box->in_[d];
    in.peer = d == 0 ? (rank + size - 1) % size : (rank + 1) % size;
    std::byte* const theirs = memory.of_rank(out, in.peer);
    in.header = reinterpret_cast<Header*>(theirs);
    in.data = theirs + header;
    in.arrivals.resize(max_under_way);
  }
  check_mpi(MPI_Barrier(group), "MPI_Barrier");  // all headers are initialised
  return box;
}

bool Mailbox::carries(std::size_t size, int peer) const {
  const bool neighbour = (rank_ + 1) % size_ == peer || (peer + 1) % size_ == rank_;
  return neighbour && peer != rank_ && size <= slot_bytes_;
}

bool Mailbox::send(std::span<const std::byte> data, int peer, MPI_Request& by_mpi) {
  Outgoing& out = out_[direction(rank_, peer)];
  const std::uint64_t taken = out.header->taken.load(std::memory_order_acquire), message = ++out.sent;
  core::require(message - taken <= max_under_way, "more than 1024 messages to one rank are under way");
  std::uint8_t chosen = by_mpi_mark;
  for (std::size_t s = 0; s < slots && chosen == by_mpi_mark; ++s) {
    if (out.user[s] <= taken) chosen = static_cast<std::uint8_t>(s);
  }
  if (chosen != by_mpi_mark) {
    out.user[chosen] = message;
    std::memcpy(out.data + chosen * slot_bytes_, data.data(), data.size());
  } else {
    check_mpi(MPI_Isend(data.data(), static_cast<int>(data.size()), MPI_BYTE, peer, tag, group_, &by_mpi), "MPI_Isend");
  }
  out.header->slot_of[message % max_under_way] = chosen;
  out.header->sent.store(message, std::memory_order_release);
  return chosen != by_mpi_mark;
}

RequestHandle Mailbox::start_receive(std::span<std::byte> data, int peer) {
  Incoming& from = in_[direction(peer, rank_)];
  core::require(from.posted - from.taken < max_under_way, "more than 1024 receives from one rank are under way");
  ++from.posted;
  Arrival& arrival = from.arrivals[from.posted % max_under_way];
  core::require(arrival.done || from.posted <= max_under_way, "a receive of 1024 messages ago has not ended");
  arrival = {.data = data};
  take(from);
  return requests_.make(*this, from, from.posted);
}

void Mailbox::take(Incoming& from) {
  if (from.taken == from.posted) return;
  const std::uint64_t sent = from.header->sent.load(std::memory_order_acquire);
  while (from.taken < from.posted && from.taken < sent) {
    const std::uint64_t message = from.taken + 1;
    Arrival& arrival = from.arrivals[message % max_under_way];
    const std::uint8_t slot = from.header->slot_of[message % max_under_way];
    if (slot == by_mpi_mark) {
      check_mpi(MPI_Irecv(arrival.data.data(), static_cast<int>(arrival.data.size()), MPI_BYTE, from.peer, tag, group_,
                          &arrival.request),
                "MPI_Irecv");
    } else {
      std::memcpy(arrival.data.data(), from.data + slot * slot_bytes_, arrival.data.size());
      arrival.done = true;
    }
    from.taken = message;
    from.header->taken.store(message, std::memory_order_release);
  }
}

bool Mailbox::finished(Incoming& from, std::uint64_t message) {
  progress();
  if (message + max_under_way <= from.posted) return true;  // the message has ended and its position is reused
  Arrival& arrival = from.arrivals[message % max_under_way];
  if (!arrival.done && arrival.request != MPI_REQUEST_NULL) {
    int finished = 0;
    check_mpi(MPI_Test(&arrival.request, &finished, MPI_STATUS_IGNORE), "MPI_Test");
    arrival.done = finished != 0;
  }
  return arrival.done;
}

void Mailbox::progress() {
  for (int d = 0; d < channels(size_); ++d) take(in_[d]);
}

}  // namespace bert_hpc::comm
