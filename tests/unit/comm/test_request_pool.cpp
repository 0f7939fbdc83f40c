#include "bert_hpc/comm/request_pool.hpp"

#include <catch2/catch_test_macros.hpp>
#include <stdexcept>
#include <vector>

using namespace bert_hpc;

namespace {

/// Counts how many live; fails to start on demand.
class Counted : public comm::Request {
 public:
  Counted(int& alive, bool starts) : alive_(alive) {
    if (!starts) throw std::runtime_error("does not start");
    ++alive_;
  }
  ~Counted() override { --alive_; }
  void wait() override {}
  bool test() override { return true; }

 private:
  int& alive_;
};

}  // namespace

TEST_CASE("a pool of requests grows only to the number of concurrent requests") {
  int alive = 0;
  comm::RequestPool<Counted> pool;
  for (int step = 0; step < 3; ++step) {
    std::vector<comm::RequestHandle> requests;
    for (int i = 0; i < 5; ++i) requests.push_back(pool.make(alive, true));
    CHECK(alive == 5);
    requests.erase(requests.begin() + 2);  // in any order
    requests.push_back(pool.make(alive, true));
    CHECK(alive == 5);
    requests.clear();
    CHECK(alive == 0);
  }
  CHECK(pool.capacity() == 5);
}

TEST_CASE("a request that does not start leaves its slot to the next one") {
  int alive = 0;
  comm::RequestPool<Counted> pool;
  for (int i = 0; i < 3; ++i) CHECK_THROWS(pool.make(alive, false));
  const comm::RequestHandle request = pool.make(alive, true);
  CHECK(alive == 1);
  CHECK(pool.capacity() == 1);
}

TEST_CASE("a request is polled between computations only where that moves it on") {
  /// Counts how often it is polled.
  struct Polled : comm::Request {
    explicit Polled(bool answer) : needs(answer) {}
    void wait() override {}
    bool test() override { return ++polls > 2; }
    bool needs_progress() const override { return needs; }
    bool needs;
    int polls = 0;
  };
  for (const bool needs : {true, false}) {
    Polled request(needs);
    for (int i = 0; i < 3; ++i) request.progress();
    CHECK(request.polls == (needs ? 3 : 0));
  }
  int alive = 0;
  CHECK(Counted(alive, true).needs_progress());
}

TEST_CASE("a request that was allocated singly is deleted by its handle") {
  int alive = 0;
  comm::RequestHandle request = std::make_unique<Counted>(alive, true);
  CHECK(alive == 1);
  request.reset();
  CHECK(alive == 0);
}
