// A communicator with random delays: every operation waits before and after, differently on every rank, so that tests
// meet orders of events that do not occur on an idle machine. The same seed gives the same delays.
#pragma once

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <utility>

#include "bert_hpc/comm/decorated_communicator.hpp"

namespace bert_hpc::test {

class DelayedCommunicator : public bert_hpc::comm::DecoratedCommunicator {
 public:
  using Communicator = bert_hpc::comm::Communicator;

  /// Each delay is between 0 and `longest`; half of them are 0. `inner` must outlive this object.
  DelayedCommunicator(Communicator& inner, unsigned seed,
                      std::chrono::microseconds longest = std::chrono::microseconds(500))
      : DecoratedCommunicator(inner), random_(seed + 7919u * static_cast<unsigned>(rank())), longest_(longest) {}
  DelayedCommunicator(std::unique_ptr<Communicator> inner, unsigned seed, std::chrono::microseconds longest)
      : DecoratedCommunicator(std::move(inner)),
        random_(seed + 7919u * static_cast<unsigned>(rank())),
        longest_(longest) {}

 protected:
  void enter(const bert_hpc::comm::Operation&) override { dawdle(); }
  void leave(const bert_hpc::comm::Operation&) override { dawdle(); }
  std::unique_ptr<Communicator> decorated(std::unique_ptr<Communicator> part) override {
    return std::make_unique<DelayedCommunicator>(std::move(part), static_cast<unsigned>(random_()), longest_);
  }

 private:
  void dawdle() {
    if (random_() % 2 == 0) return;
    std::this_thread::sleep_for(longest_ * static_cast<double>(random_()) / static_cast<double>(random_.max()));
  }

  std::mt19937 random_;
  std::chrono::microseconds longest_;
};

}  // namespace bert_hpc::test
