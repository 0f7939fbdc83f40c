// Operations in progress over MPI. Private to comm.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "node_memory.hpp"

namespace bert_hpc::comm {

inline constexpr std::size_t largest_piece = std::size_t{1} << 30;  ///< elements of one MPI call

/// Converts a size to MPI's int. Throws Error(internal) if a message is longer than largest_piece.
int message_count(std::size_t size);

/// Completes the requests; meanwhile performs this rank's part of operations in shared memory (`node`, or null).
void wait_all(std::span<MPI_Request> requests, NodeMemory* node);

class MpiRequest : public Request {
 public:
  MpiRequest(MPI_Request request, NodeMemory* node) : request_(request), node_(node) {}
  ~MpiRequest() override;
  MpiRequest(const MpiRequest&) = delete;
  MpiRequest& operator=(const MpiRequest&) = delete;
  void wait() override { wait_all(std::span(&request_, 1), node_); }
  bool test() override;

 private:
  MPI_Request request_;
  NodeMemory* node_;
};

class PairwiseSum;

/// Receive memory of one sum, and the sum that uses it.
struct SumSlot {
  std::vector<float> memory;  // (size − 1, elements of the largest piece)
  PairwiseSum* user = nullptr;
};

/// Sums the pieces of a small group: each rank sends every other rank its piece and adds the received pieces in rank
/// order. Open MPI's own nonblocking reduce_scatter gathers everything on rank 0 first, and the other ranks wait for
/// it.
class PairwiseSum : public Request {
 public:
  /// `mine` (elements) = the sum over the group of this rank's piece of `data` (size · elements). The slot's memory is
  /// large enough.
  PairwiseSum(std::span<const float> data, std::span<float> mine, SumSlot& slot, int rank, int size, MPI_Comm group,
              NodeMemory* node);
  ~PairwiseSum() override;
  PairwiseSum(const PairwiseSum&) = delete;
  PairwiseSum& operator=(const PairwiseSum&) = delete;

  void wait() override;
  bool test() override;

  static constexpr int largest_group = 8;

 private:
  float* piece_from(int peer);
  void add();

  std::span<const float> data_;
  std::span<float> mine_;
  SumSlot& slot_;
  int rank_;
  NodeMemory* node_;
  MPI_Request requests_[2 * largest_group];
  int used_ = 0;
};

}  // namespace bert_hpc::comm
