// What a Checkpointer holds, and what its thread does: the snapshot, the checkpoint in progress, and its messages.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/checkpoint/checkpoint_contents.hpp"
#include "app/checkpoint/checkpoint_parts.hpp"
#include "app/checkpoint/checkpointer.hpp"
#include "app/checkpoint/snapshot.hpp"
#include "app/run/background_worker.hpp"
#include "app/run/wall_time.hpp"

namespace bert_hpc::app {

struct Checkpointer::State {
  using Clock = std::chrono::steady_clock;
  enum Phase { idle, writing, written, failed };

  State(const Parts& given, CheckpointTexts said)
      : parts(given),
        folder(checkpoint_folder(given.context.input)),
        settings(given.context.input.checkpoint),
        texts(std::move(said)),
        tensors(whole_tensors(given.model)),
        pieces(parts_to_save(given.model, given.sums, tensors)),
        snapshot(pieces, given.model.parameters, given.optimizer.states()),
        bytes(checkpoint_bytes(given.model, given.optimizer.states().kinds(), given.context.world.size())),
        wall_time(given.context.input.run.max_walltime, bytes) {}

  comm::Communicator& world() const { return parts.context.world; }
  bool is_root() const { return world().rank() == 0; }
  /// write_own() is in the thread's queue or runs. Until then nothing is written early: the mark would be beside a file
  /// that is then written once more.
  bool own_queued() const { return phase == writing; }

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  double interval() const;  // seconds between checkpoints by the clock
  void gather_files();
  io::CheckpointManifest manifest_of(const TrainingState& state) const;
  /// A stop that leaves little time must not wait for the disk.
  io::Durability durability() const;
  std::string write_files(std::int64_t step, std::int64_t history, io::CheckpointManifest& contents,
                          io::Durability how);
  void write_own(std::int64_t step);
  void publish(const io::CheckpointManifest& whole, io::Durability how);
  void name(const io::CheckpointManifest& manifest, std::optional<std::int64_t> best);
  void end(const StepFlags& agreed);
  void report_named();
  bool has_space();

  // checkpointer_early.cpp
  void request_early();
  void write_early();
  bool copy_held(TrainingState& state);
  void name_early();
  void name_early_where_complete();
  void remove_marks(const io::CheckpointManifest& whole) const;
  void mark_stopped();
  void begin_saving();
  void end_saving();
  void settle_early();

  Parts parts;
  io::CheckpointFolder folder;
  config::Checkpoint settings;
  CheckpointTexts texts;
  std::vector<core::WholeTensor> tensors;
  std::vector<core::ArenaPiece> pieces;  // what this rank saves
  Snapshot snapshot;                     // of them
  std::int64_t bytes;                    // beside the history
  WallTime wall_time;
  double run_seconds = 0;                           // estimated
  std::vector<io::CheckpointManifest::File> files;  // of all ranks; rank 0
  std::string run_id;                               // of this start of the run

  bool under_way = false;            // agreed by all ranks
  std::int64_t step = -1;            // of the last one that began
  std::optional<std::int64_t> best;  // as of that step
  Clock::time_point begun, last = Clock::now();
  io::CheckpointManifest manifest;  // of the one under way; rank 0
  std::int64_t history_bytes = 0;   // and what it holds of the journal
  bool history_lost = false;        // which its thread could not read
  std::atomic<int> phase = idle;
  std::string error;  // of this rank, once it failed
  std::atomic<bool> cancelled = false;
  // Rank 0: what its thread has to report.
  std::mutex mutex;
  std::string named, naming_error, left_over;
  double named_seconds = 0;
  bool last_failed = false;    // rank 0
  std::string told_left_over;  // rank 0

  // The early checkpoint. What follows belongs to this rank's thread, and to the main one while that thread is idle.
  std::mutex hold_mutex;  // while it is held, parameters and states do not change
  std::condition_variable hold_changed;
  std::optional<TrainingState> held;  // what parameters and states are the state of; none while they change
  std::int64_t held_history = 0;      // bytes of the journal then; rank 0
  bool saving = false;                // the main thread writes what there is
  std::atomic<bool> early_queued = false, early_wanted = false, urgent = false;
  std::int64_t own_written = -1;  // the step whose file this rank wrote last
  std::int64_t early_step = -1;   // written early and not named yet
  std::int64_t early_named = -1;
  io::CheckpointManifest early_manifest;       // rank 0
  std::atomic<bool> manifest_pending = false;  // `manifest` is written and not named; rank 0
  BackgroundWorker worker;                     // last: it uses the others
};

}  // namespace bert_hpc::app
