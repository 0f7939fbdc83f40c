// A communicator around another one with hooks before and after every operation: the base of checks
// (checked_communicator) and of the delays in tests. Results are those of the inner communicator.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

/// One operation as a rank enters it. Plain data, sent between ranks as bytes.
struct Operation {
  enum class Name : std::int32_t {
    barrier,
    allocate,
    all_reduce,
    reduce_scatter,
    all_gather_pieces,  // of floats, in place
    broadcast,
    all_gather,
    split,
    exchange,
    send,
    receive,
  };
  enum class Type : std::int32_t { none, bytes, float32, float64, int64 };

  Name name = Name::barrier;
  Type type = Type::none;
  std::int64_t count = 0;   ///< elements of the whole on this rank; all_gather of bytes: of this rank's part
  std::int32_t detail = 0;  ///< the Reduction, the Sharing or the root; unused otherwise
  std::int32_t peer = -1;   ///< of exchange, send and receive

  bool operator==(const Operation&) const = default;
};

/// "all_reduce(float64 × 3, sum)", "broadcast(16 bytes, from rank 0)"; `number` maps the ranks to those of the text.
std::string describe(const Operation& operation, const std::function<int(int)>& number);

class DecoratedCommunicator : public Communicator {
 public:
  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  void barrier() override;
  std::span<std::byte> allocate(std::size_t bytes, Sharing sharing) override;
  void all_reduce(std::span<float> data, Reduction reduction) override;
  void all_reduce(std::span<double> data, Reduction reduction) override;
  void all_reduce(std::span<std::int64_t> data, Reduction reduction) override;
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine) override;
  RequestHandle start_reduce_scatter(std::span<const float> data, std::span<float> mine,
                                     const ZeroLines& zeros) override;
  std::int64_t reserve_sums(std::int64_t elements) override { return inner_.reserve_sums(elements); }
  std::int64_t reserve_messages(std::int64_t bytes) override { return inner_.reserve_messages(bytes); }
  RequestHandle start_all_gather(std::span<float> data) override;
  void broadcast(std::span<float> data, int root) override;
  void broadcast(std::span<std::byte> data, int root) override;
  void all_gather(std::span<const std::byte> mine, std::span<std::byte> all) override;
  void exchange(std::span<const float> send, std::span<float> receive, int peer) override;
  void send(std::span<const std::byte> data, int peer) override;
  void receive(std::span<std::byte> data, int peer) override;
  RequestHandle start_send(std::span<const float> data, int peer) override;
  RequestHandle start_receive(std::span<float> data, int peer) override;
  RequestHandle start_send(std::span<const std::byte> data, int peer) override;
  RequestHandle start_receive(std::span<std::byte> data, int peer) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 protected:
  /// `inner` must outlive this one.
  explicit DecoratedCommunicator(Communicator& inner) : inner_(inner) {}
  explicit DecoratedCommunicator(std::unique_ptr<Communicator> inner) : owned_(std::move(inner)), inner_(*owned_) {}

  virtual void enter(const Operation& operation) = 0;  ///< before it
  virtual void leave(const Operation& operation) = 0;  ///< after it has ended or been started
  /// Wraps the request of a started operation that the caller receives.
  virtual RequestHandle watched(RequestHandle request, const Operation&) { return request; }
  /// The same decoration around a group made by split().
  virtual std::unique_ptr<Communicator> decorated(std::unique_ptr<Communicator> part) = 0;

  Communicator& inner() { return inner_; }

 private:
  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
};

}  // namespace bert_hpc::comm
