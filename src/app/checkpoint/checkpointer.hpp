// Writes checkpoints while training continues. Between two steps every rank copies what it owns (a share of parameters
// and optimizer states; no number is saved twice) into memory taken at the start; its I/O thread writes that to a file.
// When all ranks have done so, which they learn from the flags that go with each step's losses, rank 0's thread writes
// the manifest and gives the checkpoint its name. Until then the one before stays what there is. The metric history
// needs no snapshot: its journal only grows, so rank 0's thread copies what it was between the two steps.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "app/checkpoint/checkpoint_differences.hpp"
#include "app/engine/model_instance.hpp"
#include "app/engine/trainer.hpp"
#include "app/engine/training_state.hpp"
#include "app/report/results.hpp"
#include "app/run/run_context.hpp"
#include "app/run/stop_request.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/io/checkpoint_folder.hpp"

namespace bert_hpc::app {

class Checkpointer {
 public:
  struct Parts {  // all must outlive the checkpointer
    const RunContext& context;
    const ModelInstance& model;
    const train::DataParallel& sums;
    train::Optimizer& optimizer;
    StopRequest& requests;
    const Results& results;  ///< whose metric history is saved too
    std::mutex& hdf5;        ///< held during HDF5 calls
    core::Timers& timers;
  };

  /// Collective. Takes all memory.
  Checkpointer(const Parts& parts, CheckpointTexts texts);
  /// Gives up what is under way.
  ~Checkpointer();
  Checkpointer(const Checkpointer&) = delete;
  Checkpointer& operator=(const Checkpointer&) = delete;

  /// On rank 0: the estimate of how long the whole run takes, in seconds.
  void expect(double run_seconds);
  /// What this rank has to say with the next step: signals; of rank 0 the clock too.
  StepFlags flags();
  /// Whether this rank was asked to stop, by a signal or (rank 0) by the clock.
  bool wants_stop() const;
  /// After every step, with all ranks' flags: ends what is under way where all have written. Communicates only where
  /// some have failed; that is a warning, and the run continues.
  void follow(const StepFlags& agreed);
  /// Whether a checkpoint follows this step.
  bool due(std::int64_t done, const StepFlags& agreed) const;

  /// Step of the last checkpoint that was begun; -1 if there was none.
  std::int64_t last_step() const;
  /// Collective. Saves the state; first waits for the one under way.
  void save(const TrainingState& state);

  /// Until release(), parameters and states stay those of this state. Not collective. If an urgent signal comes
  /// (SignalListener), it is written without waiting for the end of the step in flight, and named once all ranks have
  /// written theirs.
  void hold(const TrainingState& held);
  /// Before parameters or states change. Waits for a copy of them that is in progress, seconds at most.
  void release();
  /// Collective. What is under way gets written. False, on every rank, if the last checkpoint could not be.
  bool finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace bert_hpc::app
