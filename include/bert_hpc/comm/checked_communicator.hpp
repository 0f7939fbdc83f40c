// For debugging hangs: before each collective operation all ranks of the group tell each other what they enter. Where
// they differ, or a rank does not come, the ranks that are there throw an error that names what each one entered,
// instead of waiting for ever. Messages travel in a group of their own, so nothing of the program's own traffic
// changes; every rank tells every other one, so that each can tell by itself who is missing (the cost is size() small
// messages an operation). The idea is that of the collective checks of MUST and of the MPE library.
#pragma once

#include <memory>

#include "bert_hpc/comm/communicator.hpp"

namespace bert_hpc::comm {

struct CheckOptions {
  double timeout_seconds = 300;  ///< how long a rank may be missing, and a started operation may take
  /// Of the ranks that find the same trouble the lowest speaks at once, the others after so long: by then the speaker
  /// has ended them.
  double silence_seconds = 2;
};

/// Collective over `inner`, which must outlive the result. Operations of the result, and of its parts by split(), throw
/// Error(communication) where ranks enter different collectives (operation, element type, count, reduction, root), a
/// rank does not enter within the time, or a message or started operation does not end within the time. Afterwards the
/// group is of no more use. Ranks in messages are those of `inner`.
std::unique_ptr<Communicator> make_checked_communicator(Communicator& inner, const CheckOptions& options);

}  // namespace bert_hpc::comm
