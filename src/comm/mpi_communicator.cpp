// Groups of ranks over MPI. Counts are checked against MPI's int; larger buffers are split into pieces.
#include "bert_hpc/comm/mpi_communicator.hpp"

#include <mpi.h>

#include <algorithm>
#include <vector>

#include "bert_hpc/comm/request_pool.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "check_mpi.hpp"
#include "mailbox.hpp"
#include "mpi_requests.hpp"
#include "node_memory.hpp"

namespace bert_hpc::comm {

namespace {

MPI_Op operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return MPI_SUM;
    case Reduction::maximum:
      return MPI_MAX;
    case Reduction::minimum:
      return MPI_MIN;
  }
  return MPI_SUM;
}

template <class T>
void all_reduce_pieces(std::span<T> data, MPI_Datatype type, Reduction reduction, MPI_Comm group) {
  for (std::size_t begin = 0; begin < data.size(); begin += largest_piece) {
    const int count = static_cast<int>(std::min(largest_piece, data.size() - begin));
    check_mpi(MPI_Allreduce(MPI_IN_PLACE, data.data() + begin, count, type, operation(reduction), group),
              "MPI_Allreduce");
  }
}

/// Floats are in device memory; this is the address at which MPI can access them.
template <class T>
std::span<T> reach(std::span<T> device) {
  core::require(core::host_sees_device_memory() || core::device_memory_is_guarded(),
                "MPI was handed device memory: that is NCCL's part");
  core::require_device_memory(device.data(), "an operation between ranks");
  return {core::transport_address(device.data()), device.size()};
}

class MpiCommunicator : public Communicator {
 public:
  explicit MpiCommunicator(MPI_Comm owned) : group_(owned) {
    MPI_Comm_set_errhandler(group_, MPI_ERRORS_RETURN);
    check_mpi(MPI_Comm_rank(group_, &rank_), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(group_, &size_), "MPI_Comm_size");
  }
  ~MpiCommunicator() override {
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (!finalized) MPI_Comm_free(&group_);
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override {
    const core::CallScope call(core::DeviceCall::collective, "barrier");
    catch_up();
    check_mpi(MPI_Barrier(group_), "MPI_Barrier");
  }
  std::span<std::byte> allocate(std::size_t bytes, Sharing sharing) override {
    catch_up();
    ask_for_node_memory();
    if (node_) {
      const std::span<std::byte> shared = node_->allocate(bytes, sharing);
      if (!shared.empty() || bytes == 0) return shared;
    }
    return {memory_.emplace_back(static_cast<std::int64_t>(bytes)).data(), bytes};
  }

  void all_reduce(std::span<float> data, Reduction reduction) override {
    const core::CallScope call(core::DeviceCall::collective, "all_reduce of floats",
                               core::bytes_work(data.size_bytes()));
    catch_up();
    all_reduce_pieces(reach(data), MPI_FLOAT, reduction, group_);
  }
  void all_reduce(std::span<double> data, Reduction reduction) override {
    const core::CallScope call(core::DeviceCall::collective, "all_reduce of doubles",
                               core::bytes_work(data.size_bytes()));
    catch_up();
    all_reduce_pieces(data, MPI_DOUBLE, reduction, group_);
  }
  void all_reduce(std::span<std::int64_t> data, Reduction reduction) override {
    const core::CallScope call(core::DeviceCall::collective, "all_reduce of integers",
                               core::bytes_work(data.size_bytes()));
    catch_up();
    all_reduce_pieces(data, MPI_INT64_T, reduction, group_);
  }
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) override {
    core::count_call(core::DeviceCall::collective, "reduce_scatter");
    core::require(data.size() == mine.size() * static_cast<std::size_t>(size_), "reduce_scatter: sizes do not fit");
    if (node_) {
      if (auto request = node_->start_reduce_scatter(data, mine)) return request;
    }
    data = reach(data);
    mine = reach(mine);
    if (size_ <= PairwiseSum::largest_group) {
      return pending_sums_.make(data, mine, free_slot(mine.size()), rank_, size_, group_, node_.get());
    }
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Ireduce_scatter_block(data.data(), mine.data(), message_count(mine.size()), MPI_FLOAT, MPI_SUM,
                                        group_, &request),
              "MPI_Ireduce_scatter_block");
    return requests_.make(request, node_.get());
  }
  std::int64_t reserve_messages(std::int64_t bytes) override {
    const auto size = static_cast<std::size_t>(bytes);
    if (mailbox_ && size <= mailbox_->message_bytes()) return 0;
    catch_up();
    ask_for_node_memory();
    std::unique_ptr<Mailbox> larger = node_ ? Mailbox::make(group_, *node_, size) : nullptr;
    if (!larger) return 0;
    mailbox_ = std::move(larger);
    return Mailbox::bytes(size, size_);
  }
  std::int64_t reserve_sums(std::int64_t elements) override {
    if (node_ || size_ > PairwiseSum::largest_group) return 0;
    const auto count = static_cast<std::size_t>(elements * (size_ - 1));
    std::size_t bytes = 0;
    for (SumSlot& slot : slots_) {
      if (slot.memory.size() < count) slot.memory.resize(count);
      bytes += slot.memory.size() * sizeof(float);
    }
    return static_cast<std::int64_t>(bytes);
  }
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                     const ZeroLines& zeros) override {
    if (node_) {
      if (auto request = node_->start_reduce_scatter(data, mine, zeros)) {
        core::count_call(core::DeviceCall::collective, "reduce_scatter");
        return request;
      }
    }
    return Communicator::start_reduce_scatter(data, mine, zeros);
  }
  RequestHandle start_all_gather(std::span<float> data) override {
    core::count_call(core::DeviceCall::collective, "all_gather of floats");
    core::require(data.size() % static_cast<std::size_t>(size_) == 0, "all_gather: pieces differ");
    if (node_) {
      if (auto request = node_->start_all_gather(data)) return request;
    }
    data = reach(data);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data.data(),
                             message_count(data.size() / static_cast<std::size_t>(size_)), MPI_FLOAT, group_, &request),
              "MPI_Iallgather");
    return requests_.make(request, node_.get());
  }

  void broadcast(std::span<float> data, int root) override {
    const std::span<float> reached = reach(data);
    broadcast(std::as_writable_bytes(reached), root);
  }
  void broadcast(std::span<std::byte> data, int root) override {
    const core::CallScope call(core::DeviceCall::collective, "broadcast", core::bytes_work(data.size_bytes()));
    catch_up();
    if (node_ && node_->is_replicated(data.data(), data.size())) return barrier();
    for (std::size_t begin = 0; begin < data.size(); begin += largest_piece) {
      const int count = static_cast<int>(std::min(largest_piece, data.size() - begin));
      check_mpi(MPI_Bcast(data.data() + begin, count, MPI_BYTE, root, group_), "MPI_Bcast");
    }
  }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    const core::CallScope call(core::DeviceCall::collective, "all_gather of bytes", core::bytes_work(all.size_bytes()));
    core::require(all.size() == mine.size() * static_cast<std::size_t>(size_), "all_gather: sizes do not fit");
    const int count = message_count(mine.size());
    catch_up();
    check_mpi(MPI_Allgather(mine.data(), count, MPI_BYTE, all.data(), count, MPI_BYTE, group_), "MPI_Allgather");
  }
  void exchange(std::span<const float> send, std::span<float> receive, int peer) override {
    const core::CallScope call(core::DeviceCall::collective, "exchange", core::bytes_work(send.size_bytes()));
    core::require(send.size() == receive.size(), "exchange: sizes differ");
    send = reach(send);
    receive = reach(receive);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    const int count = message_count(send.size());
    check_mpi(MPI_Irecv(receive.data(), count, MPI_FLOAT, peer, 0, group_, &requests[0]), "MPI_Irecv");
    check_mpi(MPI_Isend(send.data(), count, MPI_FLOAT, peer, 0, group_, &requests[1]), "MPI_Isend");
    wait_all(requests, node_.get());
  }
  void send(std::span<const std::byte> data, int peer) override { start_send(data, peer)->wait(); }
  void receive(std::span<std::byte> data, int peer) override { start_receive(data, peer)->wait(); }
  RequestHandle start_send(std::span<const float> data, int peer) override {
    return start_send(std::as_bytes(reach(data)), peer);
  }
  RequestHandle start_receive(std::span<float> data, int peer) override {
    return start_receive(std::as_writable_bytes(reach(data)), peer);
  }
  RequestHandle start_send(std::span<const std::byte> data, int peer) override {
    core::count_call(core::DeviceCall::collective, "send");
    MPI_Request request = MPI_REQUEST_NULL;
    if (mailbox_ && mailbox_->carries(data.size(), peer)) {
      mailbox_->send(data, peer, request);  // a null request is complete
      return requests_.make(request, node_.get());
    }
    check_mpi(MPI_Isend(data.data(), message_count(data.size()), MPI_BYTE, peer, 1, group_, &request), "MPI_Isend");
    return requests_.make(request, node_.get());
  }
  RequestHandle start_receive(std::span<std::byte> data, int peer) override {
    core::count_call(core::DeviceCall::collective, "receive");
    if (mailbox_ && mailbox_->carries(data.size(), peer)) return mailbox_->start_receive(data, peer);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi(MPI_Irecv(data.data(), message_count(data.size()), MPI_BYTE, peer, 1, group_, &request), "MPI_Irecv");
    return requests_.make(request, node_.get());
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    MPI_Comm part = MPI_COMM_NULL;
    catch_up();
    check_mpi(MPI_Comm_split(group_, color < 0 ? MPI_UNDEFINED : color, key, &part), "MPI_Comm_split");
    if (part == MPI_COMM_NULL) return nullptr;
    auto result = std::make_unique<MpiCommunicator>(part);
    if (result->size() == 1) return make_self_communicator();  // does not need MPI
    return result;
  }

 private:
  void catch_up() {
    if (node_) node_->catch_up();
  }

  /// Collective. Not in the constructor: most groups never need it.
  void ask_for_node_memory() {
    if (asked_for_node_memory_ || !core::host_sees_device_memory()) return;
    asked_for_node_memory_ = true;
    node_ = NodeMemory::make(group_);
  }

  /// Slots are used in turn. All ranks start sums in the same order, so waiting for the oldest one cannot deadlock.
  SumSlot& free_slot(std::size_t elements) {
    SumSlot& slot = slots_[next_slot_];
    next_slot_ = (next_slot_ + 1) % sums_under_way;
    if (slot.user != nullptr) slot.user->wait();
    const std::size_t count = elements * static_cast<std::size_t>(size_ - 1);
    if (slot.memory.size() < count) slot.memory.resize(count);
    return slot;
  }

  static constexpr std::size_t sums_under_way = 8;

  MPI_Comm group_;
  int rank_ = 0, size_ = 1;
  RequestPool<MpiRequest> requests_;
  std::unique_ptr<NodeMemory> node_;  // null if the ranks do not share a node
  bool asked_for_node_memory_ = false;
  std::unique_ptr<Mailbox> mailbox_;  // null if not requested or if there is no node memory
  std::vector<core::Buffer<std::byte>> memory_;
  SumSlot slots_[sums_under_way];
  std::size_t next_slot_ = 0;
  RequestPool<PairwiseSum> pending_sums_;
};

}  // namespace

std::unique_ptr<Communicator> make_world_communicator() {
  MPI_Comm group = MPI_COMM_NULL;
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &group), "MPI_Comm_dup");
  return std::make_unique<MpiCommunicator>(group);
}

std::int64_t message_room_bytes(std::int64_t bytes, int ranks) {
  return Mailbox::bytes(static_cast<std::size_t>(bytes), ranks);
}

}  // namespace bert_hpc::comm
