#include "bert_hpc/comm/communicator.hpp"

#include <algorithm>
#include <cstring>

#include "bert_hpc/comm/request_pool.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::comm {
namespace {

template <class T>
T reduce_one(Communicator& group, T value, Reduction reduction) {
  group.all_reduce(std::span<T>(&value, 1), reduction);
  return value;
}

class FinishedRequest : public Request {
 public:
  void wait() override {}
  bool test() override { return true; }
};

class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void barrier() override {}
  using Communicator::start_reduce_scatter;
  std::span<std::byte> allocate(std::size_t bytes, Sharing) override {
    return {memory_.emplace_back(static_cast<std::int64_t>(bytes)).data(), bytes};
  }
  void all_reduce(std::span<float>, Reduction) override {}
  void all_reduce(std::span<double>, Reduction) override {}
  void all_reduce(std::span<std::int64_t>, Reduction) override {}
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) override {
    core::copy_on_device(data.data(), mine.data(), mine.size_bytes());
    return requests_.make();
  }
  RequestHandle start_all_gather(std::span<float>) override { return requests_.make(); }
  void broadcast(std::span<float>, int) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override {
    std::copy(mine.begin(), mine.end(), all.begin());
  }
  void exchange(std::span<const float>, std::span<float>, int) override { refuse(); }
  void send(std::span<const std::byte>, int) override { refuse(); }
  void receive(std::span<std::byte>, int) override { refuse(); }
  RequestHandle start_send(std::span<const float>, int) override { refuse(); }
  RequestHandle start_receive(std::span<float>, int) override { refuse(); }
  RequestHandle start_send(std::span<const std::byte>, int) override { refuse(); }
  RequestHandle start_receive(std::span<std::byte>, int) override { refuse(); }
  std::unique_ptr<Communicator> split(int color, int) override {
    return color < 0 ? nullptr : make_self_communicator();
  }

 private:
  [[noreturn]] static void refuse() {
    throw core::Error(core::ExitCode::internal, "a group of one has no peer to talk to");
  }

  RequestPool<FinishedRequest> requests_;
  std::vector<core::Buffer<std::byte>> memory_;
};

}  // namespace

std::int64_t Communicator::reserve_sums(std::int64_t) {
  return 0;
}

std::int64_t Communicator::reserve_messages(std::int64_t) {
  return 0;
}

// For a group that makes no use of known zeros: all lines are computed, none is known to be zero.
RequestHandle Communicator::start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                                 const ZeroLines& zeros) {
  core::fill_on_device(zeros.mine, 1, mine.size() / ZeroLines::line);
  return start_reduce_scatter(data, mine);
}

double Communicator::sum(double value) {
  return reduce_one(*this, value, Reduction::sum);
}
double Communicator::maximum(double value) {
  return reduce_one(*this, value, Reduction::maximum);
}
double Communicator::minimum(double value) {
  return reduce_one(*this, value, Reduction::minimum);
}
std::int64_t Communicator::sum(std::int64_t value) {
  return reduce_one(*this, value, Reduction::sum);
}

bool Communicator::any(bool value) {
  return reduce_one(*this, std::int64_t{value ? 1 : 0}, Reduction::maximum) != 0;
}

std::string Communicator::broadcast(std::string text, int root) {
  auto length = static_cast<std::int64_t>(text.size());
  broadcast(std::as_writable_bytes(std::span(&length, 1)), root);
  text.resize(static_cast<std::size_t>(length));
  broadcast(std::as_writable_bytes(std::span(text.data(), text.size())), root);
  return text;
}

std::vector<std::string> Communicator::all_gather(const std::string& text) {
  const std::uint64_t length = text.size();
  const std::int64_t longest = reduce_one(*this, static_cast<std::int64_t>(length), Reduction::maximum);
  const std::size_t width = sizeof length + static_cast<std::size_t>(longest);  // length, text, padding
  std::string mine(width, '\0'), all(width * static_cast<std::size_t>(size()), '\0');
  std::memcpy(mine.data(), &length, sizeof length);
  std::copy(text.begin(), text.end(), mine.begin() + sizeof length);
  all_gather(std::as_bytes(std::span(mine.data(), width)), std::as_writable_bytes(std::span(all.data(), all.size())));
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += width) {
    std::uint64_t size = 0;
    std::memcpy(&size, all.data() + at, sizeof size);
    texts.push_back(all.substr(at + sizeof size, size));
  }
  return texts;
}

std::unique_ptr<Communicator> make_self_communicator() {
  return std::make_unique<SelfCommunicator>();
}

}  // namespace bert_hpc::comm
