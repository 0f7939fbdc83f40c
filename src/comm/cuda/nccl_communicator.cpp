// Communicators of CUDA builds: floats travel between GPUs over NCCL, all other data over the inner MPI communicator,
// which also creates NCCL's groups (rank 0 broadcasts a unique id). nccl_channel.hpp alone includes nccl.h.
//
// Each group has its own stream. An operation waits there for the kernels before it, and the kernels after its wait()
// wait for the operation. The host never waits, so communication overlaps with all kernels launched between start and
// wait. Messages to higher ranks and to lower ranks have separate groups and streams: a blocked message in one
// direction cannot block the other, and within one direction ranks wait for each other in one order only, so two
// neighbours that send at the same time cannot deadlock.
#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "bert_hpc/comm/device_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/comm/request_pool.hpp"
#include "nccl_channel.hpp"

namespace bert_hpc::comm {
namespace {

ncclRedOp_t nccl_operation(Reduction reduction) {
  switch (reduction) {
    case Reduction::sum:
      return ncclSum;
    case Reduction::maximum:
      return ncclMax;
    case Reduction::minimum:
      return ncclMin;
  }
  return ncclSum;
}

class NcclCommunicator : public Communicator {
 public:
  NcclCommunicator(Communicator& inner, std::shared_ptr<Watch> watch) : inner_(inner), watch_(std::move(watch)) {}
  NcclCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<Watch> watch)
      : owned_(std::move(inner)), inner_(*owned_), watch_(std::move(watch)) {}

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override { inner_.barrier(); }
  void all_reduce(std::span<double> data, Reduction reduction) override { inner_.all_reduce(data, reduction); }
  void all_reduce(std::span<std::int64_t> data, Reduction reduction) override { inner_.all_reduce(data, reduction); }
  void broadcast(std::span<std::byte> data, int root) override { inner_.broadcast(data, root); }
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override { inner_.all_gather(mine, all); }
  void send(std::span<const std::byte> data, int peer) override { inner_.send(data, peer); }
  void receive(std::span<std::byte> data, int peer) override { inner_.receive(data, peer); }
  RequestHandle start_send(std::span<const std::byte> data, int peer) override { return inner_.start_send(data, peer); }
  RequestHandle start_receive(std::span<std::byte> data, int peer) override { return inner_.start_receive(data, peer); }

  std::span<std::byte> allocate(std::size_t bytes, Sharing) override {
    return {memory_.emplace_back(static_cast<std::int64_t>(bytes)).data(), bytes};
  }

  void all_reduce(std::span<float> data, Reduction reduction) override {
    channel().start("ncclAllReduce", [&](ncclComm_t group, cudaStream_t stream) {
      return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, nccl_operation(reduction), group, stream);
    });
    channel().finish();
  }
  void broadcast(std::span<float> data, int root) override {
    channel().start("ncclBroadcast", [&](ncclComm_t group, cudaStream_t stream) {
      return ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat, root, group, stream);
    });
    channel().finish();
  }
  void exchange(std::span<const float> send, std::span<float> receive, int peer) override {
    core::require(send.size() == receive.size(), "exchange: sizes differ");
    channel().start("an exchange", [&](ncclComm_t group, cudaStream_t stream) {
      ncclGroupStart();
      ncclSend(send.data(), send.size(), ncclFloat, peer, group, stream);
      ncclRecv(receive.data(), receive.size(), ncclFloat, peer, group, stream);
      return ncclGroupEnd();
    });
    channel().finish();
  }

  using Communicator::start_reduce_scatter;
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) override {
    core::require(data.size() == mine.size() * static_cast<std::size_t>(size()), "reduce_scatter: sizes do not fit");
    channel().start("ncclReduceScatter", [&](ncclComm_t group, cudaStream_t stream) {
      return ncclReduceScatter(data.data(), mine.data(), mine.size(), ncclFloat, ncclSum, group, stream);
    });
    return requests_.make(channel(), events_);
  }
  RequestHandle start_all_gather(std::span<float> data) override {
    core::require(data.size() % static_cast<std::size_t>(size()) == 0, "all_gather: pieces differ");
    const std::size_t piece = data.size() / static_cast<std::size_t>(size());
    channel().start("ncclAllGather", [&](ncclComm_t group, cudaStream_t stream) {
      return ncclAllGather(data.data() + piece * static_cast<std::size_t>(rank()), data.data(), piece, ncclFloat, group,
                           stream);
    });
    return requests_.make(channel(), events_);
  }

  std::int64_t reserve_messages(std::int64_t) override {
    for (auto* way : {&up_, &down_}) {
      if (*way) continue;
      *way = std::make_unique<Channel>(inner_, *watch_);
      connect_neighbours(**way);
    }
    return 0;
  }
  RequestHandle start_send(std::span<const float> data, int peer) override {
    Channel& way = direction(peer > rank());
    way.start("ncclSend", [&](ncclComm_t group, cudaStream_t stream) {
      return ncclSend(data.data(), data.size(), ncclFloat, peer, group, stream);
    });
    return requests_.make(way, events_);
  }
  RequestHandle start_receive(std::span<float> data, int peer) override {
    Channel& way = direction(peer < rank());
    way.start("ncclRecv", [&](ncclComm_t group, cudaStream_t stream) {
      return ncclRecv(data.data(), data.size(), ncclFloat, peer, group, stream);
    });
    return requests_.make(way, events_);
  }

  std::unique_ptr<Communicator> split(int color, int key) override {
    std::unique_ptr<Communicator> part = inner_.split(color, key);
    if (part == nullptr || part->size() == 1) return part;  // a group of one copies on its device
    return std::make_unique<NcclCommunicator>(std::move(part), watch_);
  }

 private:
  /// Created by the first operation on floats, which is collective: most groups never have one.
  Channel& channel() {
    if (!channel_) channel_ = std::make_unique<Channel>(inner_, *watch_);
    return *channel_;
  }
  /// NCCL connects two ranks at their first message and blocks the host meanwhile; two ranks that both receive first
  /// would deadlock. Here all ranks connect at once.
  void connect_neighbours(Channel& way) {
    const int next = (rank() + 1) % size(), before = (rank() + size() - 1) % size();
    const core::Buffer<float> sent(1), received(2);
    way.start("connecting neighbours", [&](ncclComm_t group, cudaStream_t stream) {
      ncclGroupStart();
      ncclSend(sent.data(), 1, ncclFloat, next, group, stream);
      ncclSend(sent.data(), 1, ncclFloat, before, group, stream);
      ncclRecv(received.data(), 1, ncclFloat, before, group, stream);
      ncclRecv(received.data() + 1, 1, ncclFloat, next, group, stream);
      return ncclGroupEnd();
    });
    way.finish();
    core::wait_for_kernels();
  }
  Channel& direction(bool upwards) {
    core::require(up_ != nullptr, "messages of floats before reserve_messages()");
    return upwards ? *up_ : *down_;
  }

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  std::shared_ptr<Watch> watch_;
  std::unique_ptr<Channel> channel_, up_, down_;
  std::vector<core::Buffer<std::byte>> memory_;
  Events events_;
  RequestPool<NcclRequest> requests_;
};

/// NCCL rejects two ranks of one host on the same GPU. With different host names they communicate over the loopback
/// device: slow, for tests.
void pretend_hosts(int rank) {
  std::string name("r");
  name += std::to_string(rank);
  for (const auto& [variable, value] : {std::pair<const char*, const char*>{"NCCL_HOSTID", name.c_str()},
                                        {"NCCL_NET", "Socket"},
                                        {"NCCL_IB_DISABLE", "1"},
                                        {"NCCL_SOCKET_IFNAME", "lo"},
                                        {"NCCL_ALGO", "Ring"},
                                        {"NCCL_PROTO", "Simple"}}) {
    setenv(variable, value, 0);
  }
}

}  // namespace

std::unique_ptr<Communicator> make_device_communicator(Communicator& host, bool shared_devices,
                                                       std::function<void()> before_end) {
  if (host.size() == 1) return make_self_communicator();
  if (shared_devices) pretend_hosts(host.rank());
  return std::make_unique<NcclCommunicator>(host, std::make_shared<Watch>(std::move(before_end)));
}

std::string device_communication() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "NCCL";
  return "NCCL " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace bert_hpc::comm
