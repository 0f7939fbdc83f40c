// Memory that all ranks of one node map, and the two collectives of a training step computed straight in it: a sum
// reads the other ranks' gradients where they lie, and parameters that all ranks map once need no gathering at all.
// Message passing would copy the same bytes two to four times.
//
// Regions are anonymous files (memfd_create) that the ranks open through /proc: no size limit of /dev/shm applies, and
// nothing is left behind when a rank is killed. Where the ranks cannot see each other's /proc there is no NodeMemory,
// and the communicator sends messages.
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

  /// Collective over the group. Null where the group has one rank, spans nodes, is larger than largest_group, or its
  /// ranks cannot map each other's memory.
  static std::unique_ptr<NodeMemory> make(MPI_Comm group);

  /// Collective. Zeroed, aligned to a huge page; empty where it could not be had on every rank.
  std::span<std::byte> allocate(std::size_t bytes, Sharing sharing);

  /// As Communicator::start_…; null if the data does not lie in memory of allocate(). The n-th operation of every rank
  /// is the same one.
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine);
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine, const KnownZeros& zeros);
  RequestHandle start_all_gather(std::span<float> data);

  bool finished(std::uint64_t operation);  ///< number, from 1; does what can be done now

  /// Other ranks wait for what this one has started and not yet done. A rank that waits for them in turn must first do
  /// it (catch_up(), before a collective, which all enter after starting the same) or do it meanwhile (progress(),
  /// while waiting for a message).
  bool pending() const { return done_ < started_; }
  void catch_up();
  void progress();  ///< does whatever operations can be done now, in order

  /// Where another rank's exposed memory lies that corresponds to this place in this rank's.
  std::byte* of_rank(const std::byte* mine, int rank) const;

  /// While waiting for what other ranks do: gives them this core, and MPI its turn.
  void breathe(int spins) const;

  /// Is this memory that all ranks map once?
  bool is_replicated(const void* begin, std::size_t bytes) const;

 private:
  class Mapping;

  struct Region {
    std::size_t bytes = 0;
    Sharing sharing = Sharing::exposed;
    std::vector<std::shared_ptr<Mapping>> ranks;  // by rank; the same one for all where replicated
  };
  /// How far a rank has come in the sequence of operations. A cache line each.
  struct alignas(128) Progress {
    std::atomic<std::uint64_t> arrived;  // its data of operations up to this one may be read
    std::atomic<std::uint64_t> read;     // it has read what it needs for operations up to this one
  };
  struct Operation {
    const Region* region = nullptr;
    std::size_t offset = 0;  // bytes, of the data in the region
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
  std::vector<Operation> pending_;  // a ring: operation n at n modulo its size
  std::uint64_t started_ = 0, done_ = 0;

  friend class NodeRequest;
  RequestPool<NodeRequest> requests_;
};

}  // namespace bert_hpc::comm
