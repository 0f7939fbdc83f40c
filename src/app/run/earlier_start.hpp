// The message for a run that resumes, or starts over, after a start that did not end in order.
#pragma once

#include <cstdint>
#include <string>

namespace bert_hpc::app {

/// `status`: the word in .status. `last`: the last step that the earlier start recorded, 0 if there is none. `resumed`:
/// the step of the checkpoint that this start resumes from, 0 if it starts from the beginning. Returns "" if nothing is
/// lost or the earlier start ended in order. Pure.
std::string earlier_start_note(const std::string& status, std::int64_t last, std::int64_t resumed);

/// The same for a run's directory; call it before this start changes anything there.
std::string earlier_start_note(const std::string& directory, std::int64_t resumed);

}  // namespace bert_hpc::app
