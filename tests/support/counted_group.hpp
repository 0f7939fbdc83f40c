// The first rank of a simulated group: operations between ranks complete at once, use this rank's own data for all
// ranks, and are counted. For tests of the number of operations.
#pragma once

#include <memory>
#include <span>
#include <utility>

#include "bert_hpc/comm/decorated_communicator.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::test {

class CountedGroup : public bert_hpc::comm::DecoratedCommunicator {
 public:
  using Communicator = bert_hpc::comm::Communicator;
  using Operation = bert_hpc::comm::Operation;
  using Reduction = bert_hpc::comm::Reduction;
  using RequestHandle = bert_hpc::comm::RequestHandle;

  /// `alone` is a group of one.
  CountedGroup(std::unique_ptr<Communicator> alone, int size) : DecoratedCommunicator(std::move(alone)), size_(size) {}

  int size() const override { return size_; }
  void all_reduce(std::span<double>, Reduction) override { count("all_reduce"); }
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) override {
    count("reduce_scatter");
    bert_hpc::core::copy_on_device(data.data(), mine.data(), mine.size_bytes());
    return std::make_unique<Done>();
  }
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                     const bert_hpc::comm::ZeroLines&) override {
    return start_reduce_scatter(data, mine);
  }
  RequestHandle start_all_gather(std::span<float>) override {
    count("all_gather");
    return std::make_unique<Done>();
  }

 protected:
  void enter(const Operation&) override {}
  void leave(const Operation&) override {}
  RequestHandle watched(RequestHandle request, const Operation&) override { return request; }
  std::unique_ptr<Communicator> decorated(std::unique_ptr<Communicator> part) override { return part; }

 private:
  struct Done : bert_hpc::comm::Request {
    void wait() override {}
    bool test() override { return true; }
  };
  static void count(const char* name) { bert_hpc::core::count_call(bert_hpc::core::DeviceCall::collective, name); }

  int size_;
};

}  // namespace bert_hpc::test
