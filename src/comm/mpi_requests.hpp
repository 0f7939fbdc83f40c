// Operations under way over MPI. Private to comm.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "node_memory.hpp"

namespace bert_hpc::comm {

inline constexpr std::size_t largest_piece = std::size_t{1} << 30;  ///< elements of one MPI call

/// As MPI counts. Throws Error(internal) where a message is longer than largest_piece.
int message_count(std::size_t size);

/// Ends the requests, doing this rank's part of operations in shared memory (`node`, or null) meanwhile.
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

/// Where one sum receives, and which.
struct SumSlot {
  std::vector<float> memory;  // (size − 1, elements of the largest piece)
  PairwiseSum* user = nullptr;
};

/// Sums the pieces of a small group: everybody sends each other rank its piece and adds what comes, in the order of
/// ranks. Open MPI's own nonblocking reduce_scatter gathers everything on rank 0 first and keeps the others waiting.
class PairwiseSum : public Request {
 public:
  /// `mine` (elements) of `data` (size · elements), summed over the group. The slot's memory is large enough.
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
