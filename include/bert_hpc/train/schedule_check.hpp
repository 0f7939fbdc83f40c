// Finds what is wrong with a set of pipeline schedules by executing them without ranks: work left out or done twice, a
// pass before its input, a receive that meets another message than the one it expects, a deadlock. Pure.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/train/schedule.hpp"

namespace bert_hpc::train {

enum class Sending {
  buffered,    ///< a send never waits: MPI with non-blocking sends, each waited for before its buffer is used again
  rendezvous,  ///< a send waits for its receive; the halves of an exchange make progress on their own
};

/// One schedule per stage. Messages between two stages are matched in the order they are sent, whatever they carry.
/// Returns "" or a sentence on the first fault. "interleaved" runs around a ring and needs buffered sending: with
/// rendezvous all ranks may wait for their neighbour at once. The other kinds pass either way.
std::string find_fault(const std::vector<Schedule>& schedules, int micro_batches, int virtual_stages, Sending sending);

}  // namespace bert_hpc::train
