// Communicator: a group of ranks and the operations that the program needs from it. Implementations: MPI, NCCL and the
// group of one rank ("self"); all pass the same tests. Operations are collective over the group and start in the same
// order on every rank. The caller must not touch buffers between start and wait.
//
// Floats are data of kernels: they, and the marks of known zeros, are in device memory, and operations on them run in
// the order of kernels. All other data is in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/core/cache_line.hpp"

namespace bert_hpc::comm {

enum class Reduction { sum, maximum, minimum };

/// How the ranks of a group share memory from Communicator::allocate().
enum class Sharing {
  exposed,     ///< each rank has its own memory
  replicated,  ///< the same content on all ranks. All ranks may share one memory, so between two collectives over it a
               ///< rank writes only what no other rank reads or writes
};

/// A started operation; wait() completes it. The destructor of an unfinished request waits, except during exception
/// handling: the other ranks may never take part, and this rank must get far enough to end them.
class Request {
 public:
  virtual ~Request() = default;
  virtual void wait() = 0;
  virtual bool test() = 0;  ///< lets the library make progress; true when finished
  /// False if the device performs the operation without the host; test() then only costs time.
  virtual bool needs_progress() const { return true; }
  /// For pauses in a computation: calls test() if the operation needs it.
  void progress() {
    if (needs_progress()) static_cast<void>(test());
  }

 protected:
  friend struct ReleaseRequest;
  static bool fails_alone() { return std::uncaught_exceptions() > 0; }
  /// Destroys the request where it was made. Communicators reuse the memory, so the step loop allocates nothing.
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

/// Known zeros of data to be summed, per cache line: a mark of 0 means that the line is zero. Lines that are zero on
/// all ranks are neither read nor written.
struct ZeroLines {
  static constexpr auto line = static_cast<std::size_t>(core::floats_of_cache_line);
  const std::uint8_t* data = nullptr;  ///< a mark per line of all data
  std::uint8_t* mine = nullptr;        ///< a mark per line of the result: 0 if it is already known to be zero; updated
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  virtual void barrier() = 0;

  /// Collective over the group. Returns zeroed memory, aligned to 64 bytes, that lives as long as the communicator. Its
  /// start_reduce_scatter (exposed) and start_all_gather (either) handle data in this memory with the fewest copies.
  virtual std::span<std::byte> allocate(std::size_t bytes, Sharing sharing) = 0;

  /// Collective over the group, in place. The result has the same bits on every rank.
  virtual void all_reduce(std::span<float> data, Reduction reduction) = 0;
  virtual void all_reduce(std::span<double> data, Reduction reduction) = 0;
  virtual void all_reduce(std::span<std::int64_t> data, Reduction reduction) = 0;

  /// mine = sum over ranks, in rank order, of piece rank() of data. data consists of size() pieces of mine.size()
  /// elements; data and mine do not overlap. May first wait for an operation started long before, to limit the number
  /// in progress.
  virtual RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) = 0;
  /// As above, for data with many zeros. Pieces are whole cache lines. The result and marks are ready after wait().
  virtual RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                             const ZeroLines& zeros);

  /// Allocates the memory that start_reduce_scatter needs for pieces of up to `elements`, so that no step allocates it.
  /// Returns its bytes: 0 if ranks sum directly in the memory of allocate() or the library uses its own memory.
  virtual std::int64_t reserve_sums(std::int64_t elements);

  /// Collective over the group, before its first message of floats. Allocates memory for fast messages of up to `bytes`
  /// between neighbours (ranks that follow each other cyclically). Larger messages and those between other ranks use
  /// the normal path. Another call, while no message is under way, can only enlarge the memory; the smaller one is
  /// freed with the group. Returns the bytes that this call allocates.
  virtual std::int64_t reserve_messages(std::int64_t bytes);

  /// In place: data consists of size() equal pieces; piece r comes from rank r.
  virtual RequestHandle start_all_gather(std::span<float> data) = 0;

  virtual void broadcast(std::span<float> data, int root) = 0;
  virtual void broadcast(std::span<std::byte> data, int root) = 0;

  /// all[r·mine.size() …] = mine of rank r.
  virtual void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) = 0;

  /// Pairwise exchange: sends to `peer` and receives the same amount from it. Both ranks call it.
  virtual void exchange(std::span<const float> send, std::span<float> receive, int peer) = 0;

  /// Messages of floats between two ranks arrive in the order of sending, and so do messages of bytes, for any mix of
  /// these functions. Both sides know the size, at most 1 GiB.
  virtual void send(std::span<const std::byte> data, int peer) = 0;
  virtual void receive(std::span<std::byte> data, int peer) = 0;
  virtual RequestHandle start_send(std::span<const float> data, int peer) = 0;
  virtual RequestHandle start_receive(std::span<float> data, int peer) = 0;
  virtual RequestHandle start_send(std::span<const std::byte> data, int peer) = 0;
  virtual RequestHandle start_receive(std::span<std::byte> data, int peer) = 0;

  /// Collective over the group. Ranks of the same color form a group, ordered by key and then by rank in this group.
  /// Returns null if color is negative.
  virtual std::unique_ptr<Communicator> split(int color, int key) = 0;

  // Convenience functions built from the above.
  double sum(double value);
  double maximum(double value);
  double minimum(double value);
  std::int64_t sum(std::int64_t value);
  bool any(bool value);  ///< whether it is true on some rank
  std::string broadcast(std::string text, int root);
  /// The texts of all ranks, by rank; they may contain any bytes.
  std::vector<std::string> all_gather(const std::string& text);
};

/// A group of one rank.
std::unique_ptr<Communicator> make_self_communicator();

}  // namespace bert_hpc::comm
