// A decorated communicator: hooks run around every operation with its description, and results are those inside.
#include "bert_hpc/comm/decorated_communicator.hpp"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

using namespace bert_hpc;
using comm::Reduction;

namespace {

/// Notes what it does, in its group and in the groups split from it.
class Noted : public comm::DecoratedCommunicator {
 public:
  Noted(std::unique_ptr<comm::Communicator> inner, std::vector<std::string>& notes)
      : DecoratedCommunicator(std::move(inner)), notes_(notes) {}

 protected:
  void enter(const comm::Operation& operation) override { note("before ", operation); }
  void leave(const comm::Operation& operation) override { note("after ", operation); }
  std::unique_ptr<comm::Communicator> decorated(std::unique_ptr<comm::Communicator> part) override {
    return std::make_unique<Noted>(std::move(part), notes_);
  }

 private:
  void note(const char* when, const comm::Operation& operation) {
    notes_.push_back(when + comm::describe(operation, [](int rank) { return 10 + rank; }));
  }

  std::vector<std::string>& notes_;
};

/// The operation that `call` performs, if it is noted before and after.
template <class Call>
std::string noted(std::vector<std::string>& notes, const Call& call) {
  notes.clear();
  call();
  if (notes.size() != 2 || notes[0].substr(7) != notes[1].substr(6)) return "not before and after";
  return notes[0].substr(7);
}

}  // namespace

TEST_CASE("a decorated communicator describes each operation before and after it") {
  std::vector<std::string> notes;
  Noted group(comm::make_self_communicator(), notes);
  core::Buffer<float> floats(32);
  std::vector<double> doubles(2);
  std::vector<std::int64_t> integers(1);
  std::vector<std::byte> bytes(1), more(1);
  const std::span<float> all(floats.data(), 32), half = all.first(16), rest = all.last(16);
  const auto of = [&](const auto& call) { return noted(notes, call); };
  CHECK(of([&] { group.barrier(); }) == "barrier()");
  CHECK(of([&] { group.all_reduce(half, Reduction::sum); }) == "all_reduce(float × 16, sum)");
  CHECK(of([&] { group.all_reduce(std::span(doubles), Reduction::maximum); }) == "all_reduce(double × 2, maximum)");
  CHECK(of([&] { group.all_reduce(std::span(integers), Reduction::minimum); }) == "all_reduce(int64 × 1, minimum)");
  CHECK(of([&] { group.start_reduce_scatter(half, rest)->wait(); }) == "reduce_scatter(float × 16)");
  CHECK(of([&] { group.start_all_gather(all)->wait(); }) == "all_gather(float × 32)");
  CHECK(of([&] { group.broadcast(half, 0); }) == "broadcast(float × 16, from rank 10)");
  CHECK(of([&] { group.broadcast(std::span(bytes), 0); }) == "broadcast(1 byte, from rank 10)");
  CHECK(of([&] { group.all_gather(std::span<const std::byte>(bytes), more); }) == "all_gather(1 byte)");
  CHECK(of([&] { group.allocate(64, comm::Sharing::exposed); }) == "allocate(64 bytes, exposed)");
  CHECK(of([&] { group.allocate(64, comm::Sharing::replicated); }) == "allocate(64 bytes, replicated)");
  CHECK(of([&] { group.split(-1, 0); }) == "split()");
}

TEST_CASE("an operation that fails inside is described before it") {
  std::vector<std::string> notes;
  Noted group(comm::make_self_communicator(), notes);
  std::vector<std::byte> bytes(3);
  core::Buffer<float> floats(4);
  const std::span<float> two(floats.data(), 2), others(floats.data() + 2, 2);
  const auto last = [&] {
    REQUIRE(notes.size() == 1);
    const std::string note = notes[0];
    notes.clear();
    return note;
  };
  CHECK_THROWS_AS(group.send(bytes, 2), core::Error);
  CHECK(last() == "before send(3 bytes, to rank 12)");
  CHECK_THROWS_AS(group.receive(bytes, 1), core::Error);
  CHECK(last() == "before receive(3 bytes, from rank 11)");
  CHECK_THROWS_AS(group.exchange(two, others, 1), core::Error);
  CHECK(last() == "before exchange(float × 2, with rank 11)");
  CHECK_THROWS_AS(group.start_send(std::span<const float>(two), 1), core::Error);
  CHECK(last() == "before send(float × 2, to rank 11)");
  CHECK_THROWS_AS(group.start_receive(two, 1), core::Error);
  CHECK(last() == "before receive(float × 2, from rank 11)");
}

TEST_CASE("groups split from a decorated communicator are decorated") {
  std::vector<std::string> notes;
  Noted group(comm::make_self_communicator(), notes);
  const auto part = group.split(0, 0);
  REQUIRE(part != nullptr);
  CHECK(noted(notes, [&] { part->barrier(); }) == "barrier()");
  CHECK(part->size() == 1);
  CHECK(part->rank() == 0);
}

TEST_CASE("a group of one has the results of its own data") {
  const auto group = comm::make_self_communicator();
  CHECK(group->sum(2.5) == 2.5);
  CHECK(group->sum(std::int64_t{1} << 60) == std::int64_t{1} << 60);
  CHECK(group->maximum(-1.0) == -1.0);
  CHECK(group->minimum(-1.0) == -1.0);
  CHECK(group->any(true));
  CHECK_FALSE(group->any(false));
  const std::string text("a\0b", 3);
  CHECK(group->broadcast(text, 0) == text);
  CHECK(group->broadcast(std::string(), 0).empty());
  CHECK(group->all_gather(text) == std::vector<std::string>{text});
  CHECK(group->all_gather(std::string()) == std::vector<std::string>{""});
  const std::span<std::byte> memory = group->allocate(100, comm::Sharing::exposed);
  CHECK(memory.size() == 100);
  CHECK(reinterpret_cast<std::uintptr_t>(memory.data()) % 64 == 0);
}
