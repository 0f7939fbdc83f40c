// The parts of an NCCL communicator: groups with their streams, events, requests, and the watch that ends all ranks
// when NCCL loses one.
#pragma once

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

using core::check_cuda;

inline void check_nccl(ncclResult_t status, const char* operation, ncclComm_t group = nullptr) {
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

inline cudaStream_t kernels() {
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

}  // namespace bert_hpc::comm
