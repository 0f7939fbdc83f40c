// A communicator whose requests need no progress from the host, like those of a device; counts polls anyway.
#pragma once

#include <memory>
#include <utility>

#include "bert_hpc/comm/decorated_communicator.hpp"

namespace bert_hpc::test {

class UnpolledCommunicator : public bert_hpc::comm::DecoratedCommunicator {
 public:
  using Communicator = bert_hpc::comm::Communicator;
  using Operation = bert_hpc::comm::Operation;
  using RequestHandle = bert_hpc::comm::RequestHandle;

  /// `inner` must outlive this object.
  explicit UnpolledCommunicator(Communicator& inner) : DecoratedCommunicator(inner) {}
  explicit UnpolledCommunicator(std::unique_ptr<Communicator> inner) : DecoratedCommunicator(std::move(inner)) {}

  int polls() const { return polls_; }
  int waits() const { return waits_; }

 protected:
  void enter(const Operation&) override {}
  void leave(const Operation&) override {}
  RequestHandle watched(RequestHandle request, const Operation&) override {
    return std::make_unique<Unpolled>(std::move(request), *this);
  }
  std::unique_ptr<Communicator> decorated(std::unique_ptr<Communicator> part) override {
    return std::make_unique<UnpolledCommunicator>(std::move(part));
  }

 private:
  class Unpolled : public bert_hpc::comm::Request {
   public:
    Unpolled(RequestHandle inner, UnpolledCommunicator& maker) : inner_(std::move(inner)), maker_(maker) {}
    void wait() override {
      ++maker_.waits_;
      inner_->wait();
    }
    bool test() override {
      ++maker_.polls_;
      return inner_->test();
    }
    bool needs_progress() const override { return false; }

   private:
    RequestHandle inner_;
    UnpolledCommunicator& maker_;
  };

  int polls_ = 0, waits_ = 0;
};

}  // namespace bert_hpc::test
