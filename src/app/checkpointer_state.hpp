// What a Checkpointer holds, and what its thread does: the snapshot, the checkpoint under way, and what is to be told.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "background_worker.hpp"
#include "bert_hpc/app/checkpointer.hpp"
#include "checkpoint_parts.hpp"
#include "wall_time.hpp"

namespace bert_hpc::app {

struct Checkpointer::State {
  using Clock = std::chrono::steady_clock;
  enum Phase { idle, writing, written, failed };

  State(const Parts& given, CheckpointTexts said)
      : parts(given),
        folder(checkpoint_folder(given.context.input)),
        settings(given.context.input.checkpoint),
        texts(std::move(said)),
        tensors(whole_tensors(given.assembly)),
        pieces(parts_to_save(given.assembly, given.sums, tensors)),
        bytes(checkpoint_bytes(given.assembly, given.context.world.size())),
        wall_time(given.context, bytes) {}

  comm::Communicator& world() const { return parts.context.world; }
  bool speaks() const { return world().rank() == 0; }
  std::int64_t own_elements() const { return static_cast<std::int64_t>(snapshot.size()) / io::quantities; }

  static double seconds_since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }
  void gather_files();
  void copy();
  io::CheckpointManifest manifest_of(const TrainingState& state) const;
  void write_own(std::int64_t step);
  void write_history(const std::string& place);
  void name(const io::CheckpointManifest& manifest, std::optional<std::int64_t> best);
  void end(const Votes& agreed);
  void tell_named();
  bool has_space();

  Parts parts;
  io::CheckpointFolder folder;
  config::Checkpoint settings;
  CheckpointTexts texts;
  std::vector<core::WholeTensor> tensors;
  std::vector<core::PlacedPiece> pieces;  // what this rank saves
  std::int64_t bytes;                     // beside the history
  WallTime wall_time;
  core::Buffer<float> snapshot;                     // (quantities, own elements)
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
  // Rank 0: what its thread has to tell.
  std::mutex mutex;
  std::string named, naming_error, left_over;
  double named_seconds = 0;
  bool last_failed = false;    // rank 0
  std::string told_left_over;  // rank 0
  BackgroundWorker worker;     // last: it uses the others
};

}  // namespace bert_hpc::app
