// Communicators of CUDA builds: floats travel between GPUs over NCCL, all other data over the inner MPI communicator,
// which also creates NCCL's groups (rank 0 broadcasts a unique id). The only file that includes nccl.h.
//
// Each group has its own stream. An operation waits there for the kernels before it, and the kernels after its wait()
// wait for the operation. The host never waits, so communication overlaps with all kernels launched between start and
// wait. Messages to higher ranks and to lower ranks have separate groups and streams: a blocked message in one
// direction cannot block the other, and within one direction ranks wait for each other in one order only, so two
// neighbours that send at the same time cannot deadlock.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../../core/cuda/check_cuda.hpp"
#include "bert_hpc/comm/device_communicator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/comm/request_pool.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::comm {
namespace {

using core::check_cuda;

void check_nccl(ncclResult_t status, const char* operation, ncclComm_t group = nullptr) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw core::Error(core::ExitCode::communication, std::string("NCCL failed in ") + operation + ": " +
                                                       ncclGetErrorString(status) + ". " + ncclGetLastError(group) +
                                                       " NCCL_DEBUG=WARN prints details.");
}

/// Monitors the groups of this process. When NCCL detects an error while kernels wait (a dead peer, a broken link), the
/// kernels and the host would wait forever; the watch ends all ranks instead.
class Watch {
 public:
  /// Calls before_end before it ends all ranks.
  explicit Watch(std::function<void()> before_end) : before_end_(std::move(before_end)), thread_([this] { run(); }) {}
  ~Watch() {
    stopping_ = true;
    thread_.join();
  }
  void add(ncclComm_t group) {
    const std::lock_guard lock(mutex_);
    groups_.push_back(group);
  }
  void remove(ncclComm_t group) {
    const std::lock_guard lock(mutex_);
    std::erase(groups_, group);
  }

 private:
  void run() {
    while (!stopping_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      const std::lock_guard lock(mutex_);
      for (const ncclComm_t group : groups_) {
        ncclResult_t found = ncclSuccess;
        const ncclResult_t asked = ncclCommGetAsyncError(group, &found);
        if (asked == ncclSuccess && (found == ncclSuccess || found == ncclInProgress)) continue;
        std::fprintf(stderr, "error: NCCL lost another rank: %s. %s\n",
                     ncclGetErrorString(asked == ncclSuccess ? found : asked), ncclGetLastError(group));
        std::fflush(stderr);
        if (before_end_) before_end_();
        abort_all_ranks(static_cast<int>(core::ExitCode::communication));
      }
    }
  }

  std::function<void()> before_end_;
  std::mutex mutex_;
  std::vector<ncclComm_t> groups_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

ncclRedOp_t operation(Reduction reduction) {
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

cudaStream_t kernels() {
  return static_cast<cudaStream_t>(core::kernel_stream());
}

class Event {
 public:
  Event() { check_cuda(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming), "cudaEventCreate"); }
  ~Event() { static_cast<void>(cudaEventDestroy(event_)); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(cudaStream_t stream) const { check_cuda(cudaEventRecord(event_, stream), "cudaEventRecord"); }
  void make_wait(cudaStream_t stream) const {
    check_cuda(cudaStreamWaitEvent(stream, event_, 0), "cudaStreamWaitEvent");
  }
  /// For destructors. A failure stays the thread's last error, which the check of the next launch throws.
  void try_to_make_wait(cudaStream_t stream) const noexcept {
    static_cast<void>(cudaStreamWaitEvent(stream, event_, 0));
  }
  bool has_passed() const {
    const cudaError_t status = cudaEventQuery(event_);
    if (status == cudaErrorNotReady) {
      core::clear_last_error();  // otherwise the check of the next launch would throw the thread's last error
      return false;
    }
    check_cuda(status, "an operation between ranks");
    return true;
  }

 private:
  cudaEvent_t event_ = nullptr;
};

/// An NCCL group with its stream.
class Channel {
 public:
  /// Collective over `inner`.
  Channel(Communicator& inner, Watch& watch) : watch_(watch) {
    ncclUniqueId id{};
    if (inner.rank() == 0) check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    inner.broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    check_nccl(ncclCommInitRank(&group_, inner.size(), id, inner.rank()), "ncclCommInitRank");
    // Highest priority: a waiting NCCL block delays other ranks, a waiting block of a kernel does not.
    int lowest = 0, highest = 0;
    check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
    check_cuda(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest), "cudaStreamCreateWithPriority");
    watch_.add(group_);
  }
  ~Channel() {
    watch_.remove(group_);
    // After an exception other ranks may never take part: abort the operations in progress.
    static_cast<void>(std::uncaught_exceptions() > 0 ? ncclCommAbort(group_) : ncclCommDestroy(group_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Channel(const Channel&) = delete;
  Channel& operator=(const Channel&) = delete;

  /// Calls launch(group, stream), ordered after the kernels launched so far.
  template <class Launch>
  void start(const char* what, const Launch& launch) {
    core::count_call(core::DeviceCall::collective, what);
    begin_.record(kernels());
    begin_.make_wait(stream_);
    check_nccl(launch(group_, stream_), what, group_);
  }
  void mark_end(const Event& event) const { event.record(stream_); }
  /// Makes the following kernels wait for the started operation.
  void finish() const {
    end_.record(stream_);
    end_.make_wait(kernels());
  }

 private:
  Watch& watch_;
  ncclComm_t group_ = nullptr;
  cudaStream_t stream_ = nullptr;
  Event begin_, end_;
};

/// A pool of unused events, as creating an event takes longer than recording it.
class Events {
 public:
  std::unique_ptr<Event> take() {
    if (free_.empty()) {
      free_.reserve(++made_);  // for give_back()
      return std::make_unique<Event>();
    }
    std::unique_ptr<Event> event = std::move(free_.back());
    free_.pop_back();
    return event;
  }
  void give_back(std::unique_ptr<Event> event) noexcept { free_.push_back(std::move(event)); }

 private:
  std::size_t made_ = 0;
  std::vector<std::unique_ptr<Event>> free_;
};

class NcclRequest : public Request {
 public:
  NcclRequest(const Channel& channel, Events& events) : events_(events), event_(events.take()) {
    channel.mark_end(*event_);
  }
  ~NcclRequest() override {
    if (!waited_ && !fails_alone()) event_->try_to_make_wait(kernels());
    events_.give_back(std::move(event_));
  }
  NcclRequest(const NcclRequest&) = delete;
  NcclRequest& operator=(const NcclRequest&) = delete;
  void wait() override {
    event_->make_wait(kernels());
    waited_ = true;
  }
  bool test() override {
    waited_ = waited_ || event_->has_passed();
    return waited_;
  }
  bool needs_progress() const override { return false; }

 private:
  Events& events_;
  std::unique_ptr<Event> event_;
  bool waited_ = false;
};

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
      return ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat, operation(reduction), group, stream);
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
