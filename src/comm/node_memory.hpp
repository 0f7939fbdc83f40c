// Memory that all ranks of one node map, and the two collectives of a training step computed directly in it: a sum
// reads the other ranks' gradients in place, and parameters that all ranks map once need no gathering. Message passing
// would copy the same bytes two to four times.
//
// Regions are anonymous files (memfd_create) that the ranks open through /proc: the size limit of /dev/shm does not
// apply, and no files remain when a rank is killed. If the ranks cannot access each other's /proc entries, there is no
// NodeMemory and the communicator sends messages.
#pragma once

#include <mpi.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/request_pool.hpp"

namespace bert_hpc::comm {

class NodeRequest;

class NodeMemory {
 public:
  static constexpr int largest_group = 64;

  ~NodeMemory();
  NodeMemory(const NodeMemory&) = delete;
  NodeMemory& operator=(const NodeMemory&) = delete;

  /// Collective over the group. Null if the group has one rank, spans nodes, is larger than largest_group, or its ranks
  /// cannot map each other's memory.
  static std::unique_ptr<NodeMemory> make(MPI_Comm group);

  /// Collective. Zeroed memory, aligned to a huge page; empty if it could not be allocated on every rank.
  std::span<std::byte> allocate(std::size_t bytes, Sharing sharing);

  /// Like Communicator::start_…; null if the data is not in memory of allocate(). The n-th operation is the same on
  /// every rank.
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine);
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine, const ZeroLines& zeros);
  RequestHandle start_all_gather(std::span<float> data);

  bool finished(std::uint64_t operation);  ///< `operation` counts from 1; performs the parts that are possible now

  /// Whether other ranks wait for operations that this rank has started but not performed. Before this rank waits for
  /// them in turn, it must perform its parts with catch_up() (before a collective, which all ranks enter after the same
  /// starts) or meanwhile with progress() (while waiting for a message).
  bool pending() const { return done_ < started_; }
  void catch_up();
  void progress();  ///< performs all operations that are possible now, in order

  /// The address in another rank's exposed memory that corresponds to this address of this rank.
  std::byte* of_rank(const std::byte* mine, int rank) const;

  /// Call while waiting for other ranks: yields this core to them and lets MPI make progress.
  void breathe(int spins) const;

  /// Whether all ranks map this memory once.
  bool is_replicated(const void* begin, std::size_t bytes) const;

 private:
  class Mapping;

  struct Region {
    std::size_t bytes = 0;
    Sharing sharing = Sharing::exposed;
    std::vector<std::shared_ptr<Mapping>> ranks;  // by rank; the same mapping for all if replicated
  };
  /// Progress of a rank in the sequence of operations. Each has its own cache line.
  struct alignas(128) Progress {
    std::atomic<std::uint64_t> arrived;  // its data of operations up to this one may be read
    std::atomic<std::uint64_t> read;     // it has read all it needs for operations up to this one
  };
  struct Operation {
    const Region* region = nullptr;
    std::size_t offset = 0;  // of the data in the region, bytes
    std::span<float> data;
    std::span<float> mine;                 // empty for all_gather
    const Region* marks_region = nullptr;  // of known zeros, or null
    std::size_t marks_offset = 0;
    std::uint8_t* mine_marks = nullptr;
  };

  NodeMemory(MPI_Comm group, int rank, int size);
  const Region* find(const void* begin, std::size_t bytes) const;
  bool all_reached(std::atomic<std::uint64_t> Progress::*what, std::uint64_t operation) const;
  RequestHandle start(const Operation& operation);
  std::size_t offset_in(const Region& region, const void* pointer) const;
  const std::byte* base(const Region& region, int rank) const;
  void perform(const Operation& operation) const;
  void sum(const Operation& operation) const;
  void sum_lines(const Operation& operation) const;
  void gather(const Operation& operation) const;

  MPI_Comm group_;
  int rank_, size_;
  std::deque<Region> regions_;
  Progress* progress_ = nullptr;    // (size)
  std::vector<Operation> pending_;  // a ring: operation n is at n modulo its size
  std::uint64_t started_ = 0, done_ = 0;

  friend class NodeRequest;
  RequestPool<NodeRequest> requests_;
};

}  // namespace bert_hpc::comm
