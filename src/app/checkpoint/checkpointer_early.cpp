// The early checkpoint: what is saved when the launcher may kill all ranks before the step in flight is complete. A
// step changes parameters and states in its update alone. Before it, a rank's I/O thread copies and writes them while
// the main thread computes. Only postponed updates are made then: the thread that reads a parameter makes its updates,
// and a lock admits one thread at a time. The ranks cannot agree by a message then, as the main
// threads may wait in the middle of a step: each rank leaves a mark beside its file, and rank 0 names the checkpoint
// once all marks of one step are there. A rank that was already one step further leaves no mark of it, so nothing is
// named.
#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "app/checkpoint/checkpointer_state.hpp"
#include "app/run/run_directory.hpp"
#include "bert_hpc/core/descriptor.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/own_file.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

namespace fs = std::filesystem;

constexpr auto longest_wait = std::chrono::seconds(30);  // until what is missing is given up
constexpr auto pause = std::chrono::milliseconds(5);

std::string mark_in(const std::string& path, int rank) {
  return path + "/rank-" + std::to_string(rank) + ".written";
}

/// Marks this rank's part as written. If the folder has been renamed already, opening the file fails and no mark is
/// needed.
void leave_mark(const std::string& path, int rank) {
  const core::Descriptor file(core::open_own_file(mark_in(path, rank), O_WRONLY | O_CREAT));
}

bool all_marked(const std::string& path, const std::vector<io::CheckpointManifest::File>& files) {
  std::error_code ignored;
  return std::all_of(files.begin(), files.end(),
                     [&](const auto& file) { return fs::exists(mark_in(path, file.rank), ignored); });
}

}  // namespace

void Checkpointer::hold(const TrainingState& held) {
  State& s = *state_;
  // On a GPU only the main thread copies; with FP8 the state includes what only a collective call knows.
  if (core::is_gpu_build() || s.parts.context.input.precision.compute == "fp8") return;
  {
    const std::lock_guard lock(s.hold_mutex);
    s.held = held;
    s.held_history = s.parts.results.journal_bytes();
  }
  if (s.early_wanted) s.hold_changed.notify_all();
}

void Checkpointer::release() {
  const std::lock_guard lock(state_->hold_mutex);
  state_->held.reset();
}

/// On any thread.
void Checkpointer::State::request_early() {
  early_wanted = urgent = true;
  if (!early_queued.exchange(true)) worker.add([this] { write_early(); });
}

/// On this rank's thread.
void Checkpointer::State::write_early() {
  early_queued = false;
  if (own_written >= 0) leave_mark(folder.staging(own_written), world().rank());  // of one that is under way
  TrainingState state;
  if (copy_held(state)) {
    io::CheckpointManifest whole;
    if (is_root()) {
      state.log_bytes = parts.results.log_bytes();
      whole = manifest_of(state);
    }
    const std::string problem = write_files(state.done, held_history, whole, io::Durability::buffered);
    if (problem.empty()) {
      early_step = state.done;
      early_manifest = std::move(whole);
      leave_mark(folder.staging(state.done), world().rank());
    } else if (is_root()) {
      parts.context.log.warning("the checkpoint of step " + core::with_commas(state.done) + " was not written. " +
                                problem);
    }
  }
  if (own_queued()) return request_early();  // behind it
  if (is_root()) name_early();
}

/// False if there is nothing to copy: the main thread writes already, or the state has been written.
bool Checkpointer::State::copy_held(TrainingState& state) {
  std::unique_lock lock(hold_mutex);
  hold_changed.wait_for(lock, longest_wait, [this] { return saving || own_queued() || held; });
  if (saving || own_queued() || !held) return false;
  early_wanted = false;
  state = *held;
  if (state.done <= own_written) return false;
  snapshot.copy();
  return true;
}

/// On rank 0's thread: waits for the other ranks' marks, but never while the main thread or write_own() waits for this
/// one.
void Checkpointer::State::name_early() {
  const Clock::time_point begin = Clock::now();
  while (early_step >= 0 || manifest_pending) {
    name_early_where_complete();
    std::unique_lock lock(hold_mutex);
    const bool ends = hold_changed.wait_for(lock, pause, [this] { return saving || own_queued(); });
    if (ends || Clock::now() - begin > longest_wait) break;
  }
  if (early_named >= 0 && early_named == own_written && parts.requests.stop()) mark_stopped();
}

void Checkpointer::State::name_early_where_complete() {
  const auto attempt = [&](const io::CheckpointManifest& whole, std::optional<std::int64_t> best_step) {
    const std::string path = folder.staging(whole.step);
    if (!all_marked(path, whole.files)) return false;
    try {
      publish(whole, io::Durability::buffered);
    } catch (const std::exception& failure) {
      parts.context.log.warning("the checkpoint of step " + core::with_commas(whole.step) + " was not written. " +
                                failure.what());
      return false;
    }
    early_named = whole.step;
    parts.context.log.info("checkpoint " + io::checkpoint_name(whole.step) +
                           " is complete: if the run is killed now, the same command resumes from it");
    try {
      folder.set_pointers(whole.step, best_step, io::Durability::buffered);
    } catch (const std::exception&) {  // a start that resumes sets them
    }
    return true;
  };
  if (manifest_pending && own_written >= manifest.step && attempt(manifest, best)) manifest_pending = false;
  if (early_step >= 0 && attempt(early_manifest, training_state(early_manifest).best.checkpoint())) early_step = -1;
}

void Checkpointer::State::remove_marks(const io::CheckpointManifest& whole) const {
  std::error_code ignored;
  for (const auto& file : whole.files) fs::remove(mark_in(folder.staging(whole.step), file.rank), ignored);
}

/// The run has been asked to stop, and what it would save is saved: if it is killed now, it was stopped.
void Checkpointer::State::mark_stopped() {
  try {
    parts.results.require_lock();
    app::mark_stopped(parts.context.input.run.directory);
  } catch (const std::exception&) {  // the checkpoint is what counts
  }
}

/// The main thread is about to write, or to end: this rank's thread must not wait for other ranks.
void Checkpointer::State::begin_saving() {
  {
    const std::lock_guard lock(hold_mutex);
    saving = true;
  }
  hold_changed.notify_all();
}

void Checkpointer::State::end_saving() {
  {
    const std::lock_guard lock(hold_mutex);
    saving = false;
  }
  if (early_wanted) request_early();  // of what is being written now
}

/// Collective. After begin_saving(), so that no rank writes: an early checkpoint gets its name, or is dropped.
void Checkpointer::State::settle_early() {
  if (!world().any(early_step >= 0)) return;
  if (is_root()) {
    name_early_where_complete();
    try {
      if (early_step >= 0) folder.abandon(early_step);
    } catch (const core::Error&) {  // the next start removes it
    }
  }
  early_step = -1;
  world().any(false);  // no rank begins to write before
}

}  // namespace bert_hpc::app
