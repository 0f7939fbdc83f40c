// Communicator: a group of ranks and the operations the program needs from it. MPI, NCCL and the group of one ("self")
// implement it; all pass the same tests. Operations are collective over the group and start in the same order on every
// rank. Buffers stay untouched by the caller from start to wait.
//
// Floats are what kernels compute on: they (and the marks of known zeros) lie in device memory, and operations on them
// take their turn among the kernels. Everything else lies in the host's.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/cache_line.hpp"

namespace bert_hpc::comm {

enum class Reduction { sum, maximum, minimum };

/// How the ranks of a group see memory that Communicator::allocate() gave.
enum class Sharing {
  exposed,     ///< each rank has its own
  replicated,  ///< the same content on all ranks. It may be one memory for all of them, so between two collectives over
               ///< it a rank writes only what no other rank reads or writes
};

/// A started operation; wait() ends it. Destroying an unfinished request waits, but not while an exception is on its
/// way: the other ranks may never do their part, and this one must get as far as ending them.
class Request {
 public:
  virtual ~Request() = default;
  virtual void wait() = 0;
  virtual bool test() = 0;  ///< gives the library time to progress; true when finished
  /// False where the device performs the operation without the host: test() then only costs time.
  virtual bool needs_progress() const { return true; }
  /// For the pauses of a computation: test(), where the operation needs it.
  void progress() {
    if (needs_progress()) static_cast<void>(test());
  }

 protected:
  friend struct ReleaseRequest;
  static bool fails_alone() { return std::uncaught_exceptions() > 0; }
  /// Ends its life where it was made: communicators take the memory back, as a step loop allocates nothing.
  virtual void release() noexcept { delete this; }
};

struct ReleaseRequest {
  ReleaseRequest() = default;
  template <class T>
  ReleaseRequest(const std::default_delete<T>&) {}  // for a request that was allocated singly
  void operator()(Request* request) const noexcept { request->release(); }
};

/// Owns a started operation. Its communicator must outlive it.
using RequestHandle = std::unique_ptr<Request, ReleaseRequest>;

/// Known zeros of data to be summed, in cache lines: a mark of 0 says that the line is zero. Lines that are
/// zero everywhere are neither read nor written.
struct KnownZeros {
  static constexpr auto line = static_cast<std::size_t>(core::floats_of_cache_line);
  const std::uint8_t* data = nullptr;  ///< by line of all data
  std::uint8_t* mine = nullptr;        ///< by line of the result: 0 where it is known to be zero already; updated
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;

  /// Collective over the group. Zeroed memory, aligned to 64, for as long as the communicator lives: data that its
  /// start_reduce_scatter (exposed) and start_all_gather (either) handle with the fewest copies.
  virtual std::span<std::byte> allocate(std::size_t bytes, Sharing sharing) = 0;

  /// Collective over the group: in place, the same result (same bits) on every rank.
  virtual void all_reduce(std::span<float> data, Reduction reduction) = 0;
  virtual void all_reduce(std::span<double> data, Reduction reduction) = 0;
  virtual void all_reduce(std::span<std::int64_t> data, Reduction reduction) = 0;

  /// mine = sum over ranks, in their order, of piece rank() of data, data being size() pieces of mine.size(). They
  /// do not overlap. May first wait for one that was started long before, so that few are under way at once.
  virtual RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) = 0;
  /// The same for data with many zeros. Pieces are whole lines; result and marks are ready after wait().
  virtual RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                             const KnownZeros& zeros);

  /// Takes what start_reduce_scatter needs for pieces of up to `elements`, so that no step does. Returns its bytes: 0
  /// where ranks sum straight in the memory of allocate(), or the library in its own.
  virtual std::int64_t reserve_sums(std::int64_t elements);

  /// Collective over the group, before its first message of floats. Takes what quick messages of up to `bytes` between
  /// neighbours (ranks that follow each other, the first the last) need; larger ones and others' still arrive. May be
  /// called once. Returns its bytes: 0 where there is nothing to take.
  virtual std::int64_t reserve_messages(std::int64_t bytes);

  /// In place: data is size() equal pieces; piece r comes from rank r.
  virtual RequestHandle start_all_gather(std::span<float> data) = 0;

  virtual void broadcast(std::span<float> data, int root) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;

  /// all[r·mine.size() …] = mine of rank r.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Pairwise: sends to `peer` and receives as much from it. Both call.
  virtual void exchange(std::span<const float> send, std::span<float> receive, int peer) = 0;

  /// Messages of floats from one rank to another, and those of bytes, arrive in the order in which they were sent, by
  /// whichever of these functions; both sides know the size, at most 1 GiB.
  virtual void send(std::span<const std::byte> data, int peer) = 0;
  virtual void receive(std::span<std::byte> data, int peer) = 0;
  virtual RequestHandle start_send(std::span<const float> data, int peer) = 0;
  virtual RequestHandle start_receive(std::span<float> data, int peer) = 0;
  virtual RequestHandle start_send(std::span<const std::byte> data, int peer) = 0;
  virtual RequestHandle start_receive(std::span<std::byte> data, int peer) = 0;

  /// Collective over the group: ranks of the same color become a group, ordered by key and then by rank here. Null
  /// where color is negative.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // Conveniences built from the above.
  double sum(double value);
  double maximum(double value);
  double minimum(double value);
  std::int64_t sum(std::int64_t value);
  bool any(bool value);  ///< is it true on some rank?
  std::string broadcast(std::string text, int root);
  /// Every rank's text, which may have any bytes, by rank.
  std::vector<std::string> all_gather(const std::string& text);
};

/// A group of one.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace bert_hpc::comm
