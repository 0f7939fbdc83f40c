#include "mpi_requests.hpp"

#include <sched.h>

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "check_mpi.hpp"

namespace bert_hpc::comm {

int message_count(std::size_t size) {
  core::require(size <= largest_piece, "a message is longer than 1 GiB");
  return static_cast<int>(size);
}

void wait_all(std::span<MPI_Request> requests, NodeMemory* node) {
  const int count = static_cast<int>(requests.size());
  for (int spins = 0; node != nullptr && node->pending(); ++spins) {
    int finished = 0;
    check_mpi(MPI_Testall(count, requests.data(), &finished, MPI_STATUSES_IGNORE), "MPI_Testall");
    if (finished) return;
    node->progress();
    if (spins > 200) sched_yield();
  }
  check_mpi(MPI_Waitall(count, requests.data(), MPI_STATUSES_IGNORE), "MPI_Waitall");
}

MpiRequest::~MpiRequest() {
  if (request_ != MPI_REQUEST_NULL && !fails_alone()) wait_all(std::span(&request_, 1), node_);
}

bool MpiRequest::test() {
  int finished = 0;
  check_mpi(MPI_Test(&request_, &finished, MPI_STATUS_IGNORE), "MPI_Test");
  return finished != 0;
}

PairwiseSum::PairwiseSum(std::span<const float> data, std::span<float> mine, SumSlot& slot, int rank, int size,
                         MPI_Comm group, NodeMemory* node)
    : data_(data), mine_(mine), slot_(slot), rank_(rank), node_(node) {
  const int count = message_count(mine.size());
  for (int peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    MPI_Request receive = MPI_REQUEST_NULL, send = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(piece_from(peer), count, MPI_FLOAT, peer, 2, group, &receive), "MPI_Irecv");
    check_mpi(
        MPI_Isend(data.data() + static_cast<std::size_t>(peer) * mine.size(), count, MPI_FLOAT, peer, 2, group, &send),
        "MPI_Isend");
    requests_[used_++] = receive;
    requests_[used_++] = send;
  }
  slot_.user = this;
}

PairwiseSum::~PairwiseSum() {
  if (!fails_alone()) wait_all({requests_, static_cast<std::size_t>(used_)}, node_);
  if (slot_.user == this) slot_.user = nullptr;
}

void PairwiseSum::wait() {
  wait_all({requests_, static_cast<std::size_t>(used_)}, node_);
  add();
}

bool PairwiseSum::test() {
  int finished = 0;
  check_mpi(MPI_Testall(used_, requests_, &finished, MPI_STATUSES_IGNORE), "MPI_Testall");
  if (finished) add();
  return finished != 0;
}

float* PairwiseSum::piece_from(int peer) {
  return slot_.memory.data() + static_cast<std::size_t>(peer < rank_ ? peer : peer - 1) * mine_.size();
}

void PairwiseSum::add() {
  if (slot_.user != this) return;  // already added
  slot_.user = nullptr;
  const std::size_t count = mine_.size();
  const float* own = data_.data() + static_cast<std::size_t>(rank_) * count;
  const int size = static_cast<int>(data_.size() / count);
  const float* first = rank_ == 0 ? own : piece_from(0);
  std::copy_n(first, count, mine_.data());
  for (int peer = 1; peer < size; ++peer) {
    const float* piece = peer == rank_ ? own : piece_from(peer);
    for (std::size_t i = 0; i < count; ++i) mine_[i] += piece[i];
  }
}

}  // namespace bert_hpc::comm
