// Pipeline schedules as plain data: for every stage the list of what it computes, sends and receives in one step. Pure
// functions, so that all that can go wrong (a receive without its send, a deadlock, too much memory) is found without
// ranks, by train/schedule_check.hpp; train/pipeline executes the lists.
//
//   gpipe        all forward passes, then all backward passes (Huang et al. 2019)
//   one_f_one_b  one forward, one backward, after stages - stage - 1 forwards of warm-up (PipeDream-flush, Narayanan et
//                al. 2021a): gpipe's bubble with at most stages - stage micro-batches in flight
//   interleaved  1F1B over several virtual stages a rank (Narayanan et al. 2021b): a bubble smaller by that factor
//   zb_h1        1F1B with the weight gradients apart and later, where 1F1B idles (Qi et al. 2023, "Zero Bubble
//   Pipeline
//                Parallelism", ZB-H1): a third of 1F1B's bubble, no stage holding more than 1F1B's first one does
//
// With virtual stages, a model is cut into virtual_stages·stages parts; part v·stages + stage is the virtual stage v of
// `stage`. Weight gradients of a virtual stage are made in micro-batch order in every kind: reproducible sums need it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace bert_hpc::train {

struct Instruction {
  enum class Kind {
    forward,
    backward,         ///< both parts
    backward_input,   ///< the gradient that the part before waits for
    backward_weight,  ///< after backward_input of the same micro-batch
    send_forward,     ///< the output of a forward, to the part behind
    receive_forward,
    send_backward,  ///< the gradient of the input, to the part before
    receive_backward,
    // Both directions with one neighbour at once. `micro_batch` and `virtual_stage` are of what is sent.
    send_forward_receive_backward,
    send_backward_receive_forward,
  };
  Kind kind = Kind::forward;
  int micro_batch = 0;
  int virtual_stage = 0;        ///< of this stage: whose output or gradient is sent, who needs what is received
  int other_micro_batch = -1;   ///< the received one of an exchange
  int other_virtual_stage = 0;  ///< of what an exchange receives

  bool operator==(const Instruction&) const = default;
};

/// What one stage does in one step, in order. Two stages send each other messages in the order in which they are
/// received, whatever they carry: no tags are needed.
using Schedule = std::vector<Instruction>;

enum class ScheduleKind { gpipe, one_f_one_b, interleaved, zb_h1 };

/// As [parallel] pipeline_schedule spells it: "gpipe", "1f1b", "interleaved", "zb_h1".
std::string schedule_name(ScheduleKind kind);
std::optional<ScheduleKind> schedule_kind(std::string_view name);

/// For `stage` of `stages`. One stage gives forward and backward of each micro-batch in turn: plain data parallelism.
/// Any number of micro-batches will do; "interleaved" is best with a multiple of `stages`, and with one virtual stage
/// it is 1F1B. Throws Error(input) for virtual stages in another kind or without a pipeline.
Schedule make_schedule(ScheduleKind kind, int stages, int stage, int micro_batches, int virtual_stages = 1);

/// The same for every stage.
std::vector<Schedule> make_schedules(ScheduleKind kind, int stages, int micro_batches, int virtual_stages = 1);

/// Most micro-batches of a virtual stage that are in flight at once: slots for activations. A micro-batch takes its
/// slot when its input is received (or its forward begins) and leaves it after its backward or backward_weight; a
/// gradient on its way to the stage before is not counted.
int max_in_flight(const Schedule& schedule, int virtual_stage = 0);

/// Most micro-batches of a virtual stage between backward_input and backward_weight; 0 where they are never apart.
int max_deferred(const Schedule& schedule, int virtual_stage = 0);

/// A message as one of its two ends sees it.
struct Message {
  int peer = 0;           ///< stage at the other end
  bool forward = true;    ///< activations; else gradients
  int virtual_stage = 0;  ///< of this end
  int micro_batch = 0;

  bool operator==(const Message&) const = default;
};

/// What an instruction of `stage` sends and receives; both empty for one that computes.
struct Transfer {
  std::optional<Message> send, receive;
};
Transfer transfer_of(const Instruction& instruction, int stages, int stage);

bool computes(const Instruction& instruction);

/// "forward", "send_forward_receive_backward", …: a literal that lives for ever.
const char* instruction_name(Instruction::Kind kind);

}  // namespace bert_hpc::train
