#include "bert_hpc/comm/checked_communicator.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "bert_hpc/comm/decorated_communicator.hpp"
#include "bert_hpc/comm/request_pool.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::comm {
namespace {

/// Waits between polls: busily at first, then by giving the core to other threads.
class Patience {
 public:
  Patience(double seconds, core::Clock& clock) : limit_(seconds), clock_(clock) {}

  double seconds() const { return std::chrono::duration<double>(clock_.now() - begin_).count(); }

  /// Call between two polls. Returns false when the time is over.
  bool wait() {
    const double waited = seconds();
    if (waited > 1e-3) {
      clock_.pause(std::chrono::microseconds(50));
    } else {
      std::this_thread::yield();
    }
    return waited < limit_;
  }

 private:
  double limit_;
  core::Clock& clock_;
  core::Clock::Time begin_ = clock_.now();
};

std::string seconds_text(double seconds) {
  return core::format_number(seconds, 3) + " s";
}

/// Whether these are the same operation. The two sides of an exchange name each other as peer.
bool agree(const Operation& a, const Operation& b) {
  Operation other = b;
  other.peer = a.peer;
  return a == other;
}

/// A started operation that must end within the time limit. It is in the list of operations in progress during its
/// lifetime.
class TimedRequest : public Request {
 public:
  TimedRequest(RequestHandle inner, const CheckOptions& options, const Operation& operation,
               const std::vector<int>& numbers, std::vector<Request*>& under_way)
      : inner_(std::move(inner)), options_(options), operation_(operation), numbers_(numbers), under_way_(under_way) {
    under_way_.push_back(this);
  }
  ~TimedRequest() override { std::erase(under_way_, this); }
  TimedRequest(const TimedRequest&) = delete;
  TimedRequest& operator=(const TimedRequest&) = delete;
  void wait() override {
    Patience patience(options_.timeout_seconds, *options_.clock);
    while (!inner_->test()) {
      if (!patience.wait()) fail();
    }
  }
  bool test() override { return inner_ == nullptr || inner_->test(); }
  bool needs_progress() const override { return inner_ != nullptr && inner_->needs_progress(); }

 private:
  [[noreturn]] void fail() {
    static_cast<void>(inner_.release());  // never completes: no destructor may wait for it
    throw core::Error(core::ExitCode::communication,
                      describe(operation_, [this](int r) { return numbers_[static_cast<std::size_t>(r)]; }) +
                          " has not ended after " + seconds_text(options_.timeout_seconds) +
                          " ([debug] collective_timeout_seconds): another rank did not take part.");
  }

  RequestHandle inner_;
  const CheckOptions& options_;
  Operation operation_;
  const std::vector<int>& numbers_;
  std::vector<Request*>& under_way_;
};

/// The exchanged descriptions of operations. A separate object, because messages may still arrive in it after a
/// failure; it is then leaked.
struct Board {
  std::vector<Operation> entered;  // by rank
  std::vector<RequestHandle> receives, sends;
};

class CheckedCommunicator : public DecoratedCommunicator {
 public:
  CheckedCommunicator(Communicator& inner, const CheckOptions& options)
      : DecoratedCommunicator(inner), options_(options), numbers_(static_cast<std::size_t>(inner.size())) {
    std::iota(numbers_.begin(), numbers_.end(), 0);
    prepare();
  }
  /// A group made by split(); `number` is this rank's number in messages.
  CheckedCommunicator(std::unique_ptr<Communicator> part, const CheckOptions& options, int number)
      : DecoratedCommunicator(std::move(part)), options_(options), numbers_(static_cast<std::size_t>(size())) {
    inner().all_gather(std::as_bytes(std::span(&number, 1)), std::as_writable_bytes(std::span(numbers_)));
    prepare();
  }

  // Wait through a request, which has a time limit.
  void send(std::span<const std::byte> data, int peer) override { start_send(data, peer)->wait(); }
  void receive(std::span<std::byte> data, int peer) override { start_receive(data, peer)->wait(); }

 protected:
  void enter(const Operation& operation) override {
    if (operation.name == Operation::Name::send || operation.name == Operation::Name::receive) return;
    if (operation.peer >= 0) {
      compare(operation, operation.peer, operation.peer + 1);
    } else {
      compare(operation, 0, size());
    }
  }
  void leave(const Operation&) override {}
  RequestHandle watched(RequestHandle request, const Operation& operation) override {
    return requests_.make(std::move(request), options_, operation, numbers_, under_way_);
  }
  std::unique_ptr<Communicator> decorated(std::unique_ptr<Communicator> part) override {
    return std::make_unique<CheckedCommunicator>(std::move(part), options_, numbers_[static_cast<std::size_t>(rank())]);
  }

 private:
  void prepare() {
    board_ = std::make_unique<Board>();
    board_->entered.resize(numbers_.size());
    board_->receives.resize(numbers_.size());
    board_->sends.resize(numbers_.size());
    channel_ = inner().split(0, rank());
  }

  /// Sends this rank's operation to ranks [begin, end) and receives theirs.
  void compare(const Operation& operation, int begin, int end) {
    Board& board = *board_;
    for (int r = begin; r < end; ++r) {
      if (r == rank()) continue;
      const auto at = static_cast<std::size_t>(r);
      board.receives[at] = channel_->start_receive(std::as_writable_bytes(std::span(&board.entered[at], 1)), r);
    }
    Operation& mine = board.entered[static_cast<std::size_t>(rank())];
    mine = operation;
    for (int r = begin; r < end; ++r) {
      if (r != rank()) {
        board.sends[static_cast<std::size_t>(r)] = channel_->start_send(std::as_bytes(std::span(&mine, 1)), r);
      }
    }
    hear(board, operation, begin, end);
  }

  void hear(Board& board, const Operation& operation, int begin, int end) {
    Patience patience(options_.timeout_seconds, *options_.clock);
    bool differ = false, all = false;
    double found = 0;  // time at which a difference was found
    while (true) {
      for (Request* request : under_way_) request->progress();  // ranks still to come may wait for this rank's part
      all = true;
      for (int r = begin; r < end; ++r) {
        const auto at = static_cast<std::size_t>(r);
        if (board.sends[at] && board.sends[at]->test()) board.sends[at].reset();
        if (board.receives[at] && board.receives[at]->test()) {
          board.receives[at].reset();
          if (!differ && !agree(operation, board.entered[at])) {
            differ = true;
            found = patience.seconds();
          }
        }
        all = all && !board.receives[at] && !board.sends[at];
      }
      if (all && !differ) return;
      // After a difference, wait a little longer for messages in transit, so that the error can list all ranks.
      const bool in_time = patience.wait();
      if (all || !in_time || (differ && patience.seconds() > found + options_.settle_seconds)) break;
    }
    fail(operation, begin, end, differ);
  }

  [[noreturn]] void fail(const Operation& operation, int begin, int end, bool differ) {
    const Board& board = *board_.release();  // messages may still arrive there: it is leaked
    const auto number = [this](int r) { return numbers_[static_cast<std::size_t>(r)]; };
    std::map<std::string, std::vector<int>> by_text;
    std::vector<int> missing;
    bool reports = true;
    for (int r = 0; r < size(); ++r) {
      if (r != rank() && (r < begin || r >= end)) continue;
      if (r != rank() && board.receives[static_cast<std::size_t>(r)]) {
        missing.push_back(number(r));
        continue;
      }
      if (r < rank()) reports = false;
      Operation entered = r == rank() ? operation : board.entered[static_cast<std::size_t>(r)];
      by_text[describe(entered, number)].push_back(number(r));
    }
    std::string text = differ ? "the ranks entered different collective operations:"
                              : "not all ranks reached a collective operation within " +
                                    seconds_text(options_.timeout_seconds) + " ([debug] collective_timeout_seconds):";
    for (const auto& [entered, ranks] : by_text) text += "\n     " + ranks_text(ranks) + " entered " + entered;
    if (!missing.empty()) {
      text += "\n     " + ranks_text(missing) + " did not arrive" + (differ ? " so far" : "");
    }
    if (!reports) std::this_thread::sleep_for(std::chrono::duration<double>(options_.silence_seconds));
    throw core::Error(core::ExitCode::communication, text);
  }

  static std::string ranks_text(std::vector<int> ranks) {
    std::sort(ranks.begin(), ranks.end());
    std::string text;
    for (std::size_t i = 0; i < ranks.size();) {
      std::size_t last = i;
      while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
      text += (text.empty() ? "" : ", ") + std::to_string(ranks[i]);
      if (last > i) text += (last == i + 1 ? ", " : "-") + std::to_string(ranks[last]);
      i = last + 1;
    }
    return (ranks.size() == 1 ? "rank " : "ranks ") + text;
  }

  CheckOptions options_;
  std::vector<int> numbers_;               // number of each rank of the group in messages
  std::unique_ptr<Communicator> channel_;  // for the checks only
  std::unique_ptr<Board> board_;           // declared after the channel, whose requests it holds
  std::vector<Request*> under_way_;
  RequestPool<TimedRequest> requests_;
};

}  // namespace

std::unique_ptr<Communicator> make_checked_communicator(Communicator& inner, const CheckOptions& options) {
  return std::make_unique<CheckedCommunicator>(inner, options);
}

}  // namespace bert_hpc::comm
