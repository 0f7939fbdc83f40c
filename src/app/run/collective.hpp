// How ranks fail together. Set-up work runs on every rank; where it fails on some, all learn of it and leave with the
// same code, and only the lowest failing rank reports. A rank that fails where the others cannot know ends them all
// instead.
#pragma once

#include <functional>

#include "app/run/failure_mark.hpp"
#include "bert_hpc/comm/agreement.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::app {

using comm::AgreedError;

/// Thrown on every rank after a failure that all ranks know of and that has been reported.
struct Stop {
  core::ExitCode code;
};

/// Collective. Runs `work` on every rank; if it throws on any, the lowest failing rank reports its error and every rank
/// throws Stop with that rank's code. `work` may communicate only if all ranks leave it when one throws.
void collectively(comm::Communicator& world, const std::function<void()>& work);

/// Runs `work` on a rank whose threads are at work too. What it throws but AgreedError and Stop, this rank alone knows:
/// it is reported and ends all ranks at once, but for the mark. Unwinding would first wait for those threads, as long
/// as a disk hangs, while the others wait for this rank.
void alone_ends_all(int rank, const FailureMark& mark, const std::function<void()>& work);

/// Reports the error of this rank alone, leaves the mark, and ends all ranks.
[[noreturn]] void end_all_ranks(const std::exception& thrown, int rank, const FailureMark& mark);

/// What was thrown, as an error for the user, with what a run can do about too little memory.
core::Error as_error(const std::exception& thrown);

/// Writes the error's block to standard error. Rank 0 reports without naming itself.
void report(const core::Error& error, int rank);

}  // namespace bert_hpc::app
