// A communicator whose operations are complete for the host when they return: on CUDA builds an operation on floats is
// queued among the kernels, while tests read its results without waiting. CUDA_LAUNCH_BLOCKING cannot replace it: a
// receive would block the host before it starts its send.
#pragma once

#include <memory>
#include <utility>

#include "bert_hpc/comm/decorated_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::test {

class SettledCommunicator : public bert_hpc::comm::DecoratedCommunicator {
 public:
  using Communicator = bert_hpc::comm::Communicator;
  using Operation = bert_hpc::comm::Operation;
  using RequestHandle = bert_hpc::comm::RequestHandle;

  /// `inner` must outlive this object.
  explicit SettledCommunicator(Communicator& inner) : DecoratedCommunicator(inner) {}
  explicit SettledCommunicator(std::unique_ptr<Communicator> inner) : DecoratedCommunicator(std::move(inner)) {}

 protected:
  void enter(const Operation&) override {}
  void leave(const Operation&) override { bert_hpc::core::wait_for_kernels(); }
  RequestHandle watched(RequestHandle request, const Operation&) override {
    return std::make_unique<Settled>(std::move(request));
  }
  std::unique_ptr<Communicator> decorated(std::unique_ptr<Communicator> part) override {
    return std::make_unique<SettledCommunicator>(std::move(part));
  }

 private:
  class Settled : public bert_hpc::comm::Request {
   public:
    explicit Settled(RequestHandle inner) : inner_(std::move(inner)) {}
    ~Settled() override {
      inner_.reset();
      if (!fails_alone()) bert_hpc::core::wait_for_kernels();
    }
    Settled(const Settled&) = delete;
    Settled& operator=(const Settled&) = delete;
    void wait() override {
      inner_->wait();
      bert_hpc::core::wait_for_kernels();
    }
    bool test() override {
      const bool done = inner_->test();
      if (done) bert_hpc::core::wait_for_kernels();
      return done;
    }
    bool needs_progress() const override { return inner_->needs_progress(); }

   private:
    RequestHandle inner_;
  };
};

}  // namespace bert_hpc::test
