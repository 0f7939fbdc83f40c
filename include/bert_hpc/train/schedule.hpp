// Pipeline schedules as plain data: for every stage, the list of what it computes, sends and receives in one step. Pure
// functions, so that tests can detect errors (a receive without its send, a deadlock, too much memory) without ranks;
// train/pipeline executes the lists.
//
//   gpipe        all forward passes, then all backward passes (Huang et al. 2019)
//   one_f_one_b  one forward, one backward, after stages - stage - 1 forwards of warm-up (PipeDream-flush, Narayanan et
//                al. 2021a): gpipe's bubble with at most stages - stage micro-batches in flight
//   interleaved  1F1B over several virtual stages per rank (Narayanan et al. 2021b): divides the bubble by their number
//   zb_h1        1F1B with separate, later weight gradients that fill its idle times (Qi et al. 2023, "Zero Bubble
//                Pipeline Parallelism", ZB-H1): a third of 1F1B's bubble; no stage holds more than 1F1B's first one
//
// With virtual stages, the model is divided into virtual_stages·stages parts; part v·stages + stage is virtual stage v
// of `stage`. Every kind computes the weight gradients of a virtual stage in micro-batch order, as reproducible sums
// need.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::train {

struct Instruction {
  enum class Kind {
    forward,
    backward,         ///< backward_input and backward_weight
    backward_input,   ///< the gradient that the previous part needs
    backward_weight,  ///< after backward_input of the same micro-batch
    send_forward,     ///< the output of a forward, to the next part
    receive_forward,
    send_backward,  ///< the gradient of the input, to the previous part
    receive_backward,
    // Both directions with one neighbour at once. `micro_batch` and `virtual_stage` describe the sent message.
    send_forward_receive_backward,
    send_backward_receive_forward,
  };
  Kind kind = Kind::forward;
  int micro_batch = 0;
  int virtual_stage = 0;        ///< on this stage: source of what is sent, destination of what is received
  int other_micro_batch = -1;   ///< the one that an exchange receives
  int other_virtual_stage = 0;  ///< of what an exchange receives

  bool operator==(const Instruction&) const = default;
};

/// The instructions of one stage in one step, in order. A stage receives messages from another one in the order in
/// which that stage sends them, whatever their content, so no tags are needed.
using Schedule = std::vector<Instruction>;

enum class ScheduleKind {
  gpipe,
  one_f_one_b,
  interleaved,
  zb_h1,
  forwards_first,  ///< gpipe's order on any number of stages, one too: for losses over a whole step
};

/// Name as in [parallel] pipeline_schedule: "gpipe" (of forwards_first too), "1f1b", "interleaved", "zb_h1".
std::string schedule_name(ScheduleKind kind);
std::optional<ScheduleKind> schedule_kind(std::string_view name);

/// The schedule of `stage` of `stages`. But for forwards_first, one stage alternates forward and backward of each
/// micro-batch: plain data parallelism. Any number of micro-batches is allowed; "interleaved" is best with a multiple
/// of `stages`, and with one virtual stage it is 1F1B. Throws Error(input) for virtual stages in another kind or
/// without a pipeline.
Schedule make_schedule(ScheduleKind kind, int stages, int stage, int micro_batches, int virtual_stages = 1);

/// The schedules of all stages.
std::vector<Schedule> make_schedules(ScheduleKind kind, int stages, int micro_batches, int virtual_stages = 1);

/// Maximum number of micro-batches of a virtual stage in flight at once, i.e. slots for activations. A micro-batch
/// occupies its slot from the receive of its input (or the begin of its forward) to the end of its backward or
/// backward_weight; a gradient being sent to the previous stage does not count.
int max_in_flight(const Schedule& schedule, int virtual_stage = 0);

/// Maximum number of micro-batches of a virtual stage between backward_input and backward_weight; 0 if the two are
/// always combined.
int max_deferred(const Schedule& schedule, int virtual_stage = 0);

/// A message from the view of one of its two ends.
struct Message {
  int peer = 0;           ///< stage at the other end
  bool forward = true;    ///< activations; else gradients
  int virtual_stage = 0;  ///< of this end
  int micro_batch = 0;

  bool operator==(const Message&) const = default;
};

/// What an instruction of `stage` sends and receives; both empty for a compute instruction.
struct Transfer {
  std::optional<Message> send, receive;
};
Transfer transfer_of(const Instruction& instruction, int stages, int stage);

bool computes(const Instruction& instruction);

/// "forward", "send_forward_receive_backward", …: a string literal.
const char* instruction_name(Instruction::Kind kind);

}  // namespace bert_hpc::train
