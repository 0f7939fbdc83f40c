// The program behind main(): what each mode does, from the input to the results on disk.
#pragma once

#include <memory>
#include <string>

#include "bert_hpc/app/run/run_context.hpp"
#include "bert_hpc/io/run_lock.hpp"

namespace bert_hpc::app {

/// Collective. Takes the lock of the run's directory, for rank 0, before anything is read or written there, and looks
/// again whether the run may begin: another one may have done so meanwhile. Throws Stop.
std::unique_ptr<io::RunLock> lock_run_directory(const RunContext& context);

/// Collective. For --validate: why the run may not begin in its directory as that is now, and the cure; "" where it
/// may. A note, no error: what is planned may be meant for another one.
std::string directory_note(const RunContext& context);

/// Collective over all ranks. Returns the exit status, the same on every rank. Throws core::Error where a rank fails
/// alone: the caller then ends all ranks.
/// The device layer is up, unless the input is only validated.
int run_application(const Invocation& invocation, comm::Communicator& world, int threads, StopRequest& requests,
                    const core::DeviceChoice& device = {});

/// Collective. Mode "train": set-up, the epochs, evaluations in between, the best model kept, results.
void run_training(const RunContext& context);

/// Collective. Modes "evaluate" and "predict".
void run_evaluation(const RunContext& context);

}  // namespace bert_hpc::app
