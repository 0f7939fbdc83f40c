// Finds errors of a set of pipeline schedules by executing them without ranks: work left out or done twice, a
// pass before its input, a receive that meets another message than the one it expects, a deadlock. Pure.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/train/schedule.hpp"

namespace bert_hpc::test {

using bert_hpc::train::Instruction;
using bert_hpc::train::Message;
using bert_hpc::train::Schedule;
using bert_hpc::train::Transfer;

enum class Sending {
  buffered,    ///< a send never waits: MPI with non-blocking sends, each waited for before its buffer is used again
  rendezvous,  ///< a send waits for its receive; the halves of an exchange make progress on their own
};

namespace schedule_check {

using Kind = Instruction::Kind;

/// The meaning of a message for both of its ends: the part of the model that waits for it, and for which micro-batch.
struct Parcel {
  bool forward = true;
  int part = 0;  // that receives
  int micro_batch = 0;
  bool operator==(const Parcel&) const = default;
};

/// How far a micro-batch is in one part of the model.
struct Progress {
  bool input = false, forward = false, gradient = false, backward_input = false, backward_weight = false;
  bool sent_forward = false, sent_backward = false;
};

class Execution {
 public:
  Execution(const std::vector<Schedule>& schedules, int micro_batches, int virtual_stages, Sending sending)
      : schedules_(schedules),
        stages_(static_cast<int>(schedules.size())),
        micro_batches_(micro_batches),
        parts_(stages_ * virtual_stages),
        virtual_stages_(virtual_stages),
        sending_(sending),
        at_(schedules.size()),
        send_done_(schedules.size()),
        receive_done_(schedules.size()),
        progress_(static_cast<std::size_t>(parts_) * static_cast<std::size_t>(micro_batches)),
        next_backward_(static_cast<std::size_t>(parts_)),
        next_weight_(static_cast<std::size_t>(parts_)) {}

  std::string run() {
    for (bool moved = true; moved && fault_.empty();) {
      moved = false;
      for (int stage = 0; stage < stages_; ++stage) {
        while (fault_.empty() && advance(stage)) moved = true;
      }
    }
    for (int stage = 0; fault_.empty() && stage < stages_; ++stage) {
      if (current(stage) != nullptr) fail(stage, "waits for ever: deadlock");
    }
    if (fault_.empty()) check_all_done();
    return fault_;
  }

 private:
  const Instruction* current(int stage) const {
    const Schedule& schedule = schedules_[index(stage)];
    return at_[index(stage)] < schedule.size() ? &schedule[at_[index(stage)]] : nullptr;
  }

  /// Starts or continues the stage's instruction. Returns false if the instruction waits or there is none.
  bool advance(int stage) {
    const Instruction* i = current(stage);
    if (i == nullptr) return false;
    if (!in_range(*i)) return fail(stage, "names a micro-batch or virtual stage that there is not");
    const Transfer transfer = transfer_of(*i, stages_, stage);
    if (computes(*i)) {
      compute(stage, *i);
    } else {
      bool moved = transfer.send && !send_done_[index(stage)] && send(stage, *transfer.send);
      moved = (transfer.receive && !receive_done_[index(stage)] && receive(stage, *transfer.receive)) || moved;
      const bool done =
          (!transfer.send || send_done_[index(stage)]) && (!transfer.receive || receive_done_[index(stage)]);
      if (!done) return moved;
    }
    ++at_[index(stage)];
    send_done_[index(stage)] = receive_done_[index(stage)] = false;
    return true;
  }

  void compute(int stage, const Instruction& i) {
    const int part = i.virtual_stage * stages_ + stage;
    Progress& state = progress(part, i.micro_batch);
    const auto once = [&](bool& done) {
      if (done) fail(stage, "is done twice");
      done = true;
    };
    if (i.kind == Kind::forward) {
      once(state.forward);
      if (part > 0 && !state.input) fail(stage, "comes before its input");
      return;
    }
    if (!state.forward) fail(stage, "comes before its forward");
    if (i.kind != Kind::backward_weight) {
      once(state.backward_input);
      if (part < parts_ - 1 && !state.gradient) fail(stage, "comes before its gradient");
      if (i.micro_batch != next_backward_[index(part)]++) fail(stage, "is out of micro-batch order");
    }
    if (i.kind != Kind::backward_input) {
      once(state.backward_weight);
      if (!state.backward_input) fail(stage, "comes before its backward_input");
      if (i.micro_batch != next_weight_[index(part)]++) fail(stage, "is out of micro-batch order");
    }
  }

  bool send(int stage, const Message& message) {
    const int part = message.virtual_stage * stages_ + stage;
    const Parcel parcel{message.forward, part + (message.forward ? 1 : -1), message.micro_batch};
    Progress& state = progress(part, message.micro_batch);
    if (parcel.part < 0 || parcel.part >= parts_) return fail(stage, "sends beyond the model's ends");
    if (!(message.forward ? state.forward : state.backward_input)) return fail(stage, "sends what is not computed yet");
    if (sending_ == Sending::rendezvous) {
      const Instruction* other = current(message.peer);
      if (other == nullptr || !in_range(*other) || receive_done_[index(message.peer)]) return false;
      const auto wanted = transfer_of(*other, stages_, message.peer).receive;
      if (!wanted || wanted->peer != stage) return false;
      if (!deliver(message.peer, *wanted, parcel)) return false;
      receive_done_[index(message.peer)] = true;
    } else {
      under_way_[{stage, message.peer}].push_back(parcel);
    }
    bool& sent = message.forward ? state.sent_forward : state.sent_backward;
    if (sent) return fail(stage, "is done twice");
    send_done_[index(stage)] = sent = true;
    return true;
  }

  bool receive(int stage, const Message& message) {
    if (sending_ == Sending::rendezvous) return false;  // the sender's side does it
    auto& queue = under_way_[{message.peer, stage}];
    if (queue.empty()) return false;
    const Parcel parcel = queue.front();
    queue.pop_front();
    return receive_done_[index(stage)] = deliver(stage, message, parcel);
  }

  bool deliver(int stage, const Message& wanted, const Parcel& parcel) {
    const int part = wanted.virtual_stage * stages_ + stage;
    if (parcel != Parcel{wanted.forward, part, wanted.micro_batch}) {
      return fail(stage, "receives another message than it expects");
    }
    Progress& state = progress(part, wanted.micro_batch);
    (wanted.forward ? state.input : state.gradient) = true;
    return true;
  }

  void check_all_done() {
    for (int part = 0; part < parts_; ++part) {
      if (next_weight_[index(part)] != micro_batches_ || next_backward_[index(part)] != micro_batches_) {
        fault_ = "Part " + std::to_string(part) + " of the model does not work on all micro-batches.";
        return;
      }
    }
    for (const auto& [link, queue] : under_way_) {
      if (!queue.empty()) fault_ = "Stage " + std::to_string(link.second) + " does not receive all that is sent to it.";
    }
  }

  bool in_range(const Instruction& i) const {
    const auto fits = [this](int micro_batch, int virtual_stage) {
      return micro_batch >= 0 && micro_batch < micro_batches_ && virtual_stage >= 0 && virtual_stage < virtual_stages_;
    };
    const bool exchange = i.kind >= Kind::send_forward_receive_backward;
    return fits(i.micro_batch, i.virtual_stage) && (!exchange || fits(i.other_micro_batch, i.other_virtual_stage));
  }

  bool fail(int stage, const char* what) {
    const std::size_t at = at_[index(stage)];
    const Instruction& i = schedules_[index(stage)][at];
    if (fault_.empty()) {
      fault_ = "Stage " + std::to_string(stage) + ", instruction " + std::to_string(at) + " (" +
               instruction_name(i.kind) + ", micro-batch " + std::to_string(i.micro_batch) + ", virtual stage " +
               std::to_string(i.virtual_stage) + ") " + what + '.';
    }
    return false;
  }

  static std::size_t index(int i) { return static_cast<std::size_t>(i); }
  Progress& progress(int part, int micro_batch) {
    return progress_[index(part) * index(micro_batches_) + index(micro_batch)];
  }

  const std::vector<Schedule>& schedules_;
  int stages_, micro_batches_, parts_, virtual_stages_;
  Sending sending_;
  std::vector<std::size_t> at_;                                  // (stages): the instruction each is at
  std::vector<bool> send_done_, receive_done_;                   // (stages): halves of that instruction
  std::vector<Progress> progress_;                               // (parts, micro-batches)
  std::vector<int> next_backward_, next_weight_;                 // (parts)
  std::map<std::pair<int, int>, std::deque<Parcel>> under_way_;  // by sender and receiver
  std::string fault_;
};

}  // namespace schedule_check

/// One schedule per stage. Messages between two stages are matched in the order of sending, with any content.
/// Returns "" or a sentence on the first fault. "interleaved" runs around a ring and needs buffered sending: with
/// rendezvous all ranks may wait for their neighbour at once. The other kinds pass either way.
inline std::string find_fault(const std::vector<Schedule>& schedules, int micro_batches, int virtual_stages,
                              Sending sending) {
  return schedule_check::Execution(schedules, micro_batches, virtual_stages, sending).run();
}

}  // namespace bert_hpc::test
