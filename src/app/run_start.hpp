// How a start takes the run's directory (checks, notes for --validate, the lock) and reports the model's values.
#pragma once

#include <memory>
#include <string>

#include "app/engine/model_loading.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/io/run_lock.hpp"

namespace bert_hpc::app {

/// On rank 0. Throws Error if the run may not begin in its directory; with --validate only where the directory
/// cannot be used at all.
void check_directory(const RunContext& context);

/// Collective. Takes the lock of the run's directory, for rank 0, before anything is read or written there, and looks
/// again whether the run may begin: another one may have done so meanwhile. Throws Stop.
std::unique_ptr<io::RunLock> lock_run_directory(const RunContext& context);

/// Collective. For --validate: why the run may not begin in its directory as that is now, and the cure; "" if it
/// may. A note, no error: what is planned may be meant for another one.
std::string directory_note(const RunContext& context);

/// Logs what a pretrained model's folder lacks and has, and what becomes of its output layer.
void report_load(const LoadNotes& notes, const RunBasics& run);

}  // namespace bert_hpc::app
