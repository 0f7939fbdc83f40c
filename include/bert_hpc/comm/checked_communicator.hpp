// For debugging hangs: before each collective operation the ranks of the group exchange descriptions of the operation
// that they enter. If the descriptions differ or a rank is missing, the other ranks throw an error that lists what each
// rank entered, instead of waiting forever. These messages use a separate group and do not change the program's own
// traffic. Every rank sends to every other rank, so that each can determine the missing ranks by itself; the cost is
// size() small messages per operation. The idea is that of the collective checks of MUST and of the MPE library.
#pragma once

#include <memory>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/clock.hpp"

namespace bert_hpc::comm {

struct CheckOptions {
  double timeout_seconds = 300;  ///< limit for a missing rank and for a started operation
  /// If several ranks detect the same error, the lowest one reports it at once; the others wait this long, by which
  /// time the reporting rank has ended them.
  double silence_seconds = 2;
  /// After a difference, the descriptions that are still under way are waited for this long, so that the error lists
  /// all ranks.
  double settle_seconds = 1;
  core::Clock* clock = &core::steady_clock();  ///< by which a rank counts as missing
};

/// Collective over `inner`, which must outlive the result. Operations of the result, and of groups made by its split(),
/// throw Error(communication) if ranks enter different collectives (operation, element type, count, reduction, root),
/// if a rank does not enter in time, or if a message or started operation does not end in time. The group cannot be
/// used afterwards. Messages number the ranks as in `inner`.
std::unique_ptr<Communicator> make_checked_communicator(Communicator& inner, const CheckOptions& options);

}  // namespace bert_hpc::comm
