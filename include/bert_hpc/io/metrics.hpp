// RUN/metrics.h5: everything a run tells about itself, readable with plain h5py.File(path) at any moment, also after a
// kill. A row goes to an append-only journal (RUN/metrics.journal) the moment it is recorded; metrics.h5 is made whole
// in memory from the rows, written beside and renamed over, every few seconds and at the end. After a kill the next
// start, or rebuild_metrics, makes metrics.h5 from the journal. TensorBoard's event files (RUN/tensorboard) are made of
// the same rows at the same times.
//
// record_* and set_* may be called from any thread and cost microseconds. poll(), snapshot() and close() call HDF5 and
// belong to the one I/O thread. One process of a run writes metrics (rank 0).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

/// What made the run. All text is UTF-8.
struct RunInfo {
  std::string version;                                          ///< of bert_hpc
  std::string source_revision;                                  ///< commit, "unknown" where there is none
  std::string resolved_input;                                   ///< TOML
  std::string started;                                          ///< UTC, "2026-01-31T12:00:00Z"; empty: now
  std::string mode, task;                                       ///< as in the input file
  std::vector<std::string> label_names;                         ///< classes, for confusion matrices
  std::vector<std::pair<std::string, std::string>> provenance;  ///< name, value: library versions, hashes
  std::int64_t data = 0, pipeline = 0, tensor = 0;              ///< ranks are so many times so many; 0: not known
  /// Of the training labels, where the model trains on standardized ones; deviation 0: it does not.
  double label_mean = 0, label_deviation = 0;
};

/// The updates since the row before: sums for samples, tokens and seconds, the mean over samples, or masked tokens, for
/// the loss (of updates that were not skipped; NaN where all were), the last step's value for the others. Steps,
/// epochs, samples and tokens are those that were seen, by skipped updates too, which took their time: speeds follow
/// from them.
struct StepRow {
  std::int64_t step = 0;  ///< number of updates done, from 1
  double epoch = 0;       ///< done, with its fraction
  double loss = 0;        ///< mean over the samples, or the masked tokens
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
  std::int64_t samples = 0, tokens = 0;
  double seconds = 0;        ///< duration
  std::int64_t skipped = 0;  ///< of these updates were left out, their loss or gradient not being finite
  double time = 0;           ///< s since 1970, of its recording, which sets it; 0 where older versions have
};

struct EvaluationRow {
  std::int64_t step = 0;
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics;  ///< name, value; e.g. "accuracy"
  std::int64_t classes = 0;                             ///< 0: no confusion matrix
  std::vector<std::int64_t> confusion_matrix;           ///< (actual classes, predicted classes), row-major
  double time = 0;                                      ///< as in StepRow
};

/// Of training in fp16.
struct LossScaleRow {
  std::int64_t step = 0;
  double scale = 1;
  std::int64_t skipped = 0;  ///< updates left out so far
  double time = 0;           ///< as in StepRow
};

struct EfficiencyRow {
  std::int64_t step = 0;
  double noise_scale = 0, efficiency = 0, goodput = 0;
};

struct TimerRow {
  std::string name;
  std::int64_t calls = 0;
  double seconds_min = 0, seconds_avg = 0, seconds_max = 0;  ///< over ranks
};

struct RankRow {
  std::string host, device;
  std::int64_t threads = 0;
  std::int64_t peak_memory = 0;                          ///< bytes
  double utilisation = 0;                                ///< computing of the steps' time: 0 … 1, NaN where unknown
  double power = 0;                                      ///< W, NaN where unknown
  std::int64_t start_memory = 0, planned_memory = 0;     ///< bytes: resident before set-up, and planned beside it
  double computing = 0, communicating = 0, waiting = 0;  ///< seconds, NaN where unknown (GPUs)
  /// Of the rank's GPU, whoever uses it: a kernel ran (0 … 1 of the time), most memory (bytes), energy (J); NaN where
  /// unknown.
  double gpu_utilisation = 0, gpu_memory = 0, energy = 0;

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.host, self.device, self.threads, self.peak_memory, self.utilisation, self.power,
                    self.start_memory, self.planned_memory, self.computing, self.communicating, self.waiting,
                    self.gpu_utilisation, self.gpu_memory, self.energy);
  }
};

enum class RunStatus { running, finished, failed, stopped };

class MetricsWriter {
 public:
  struct Options {
    double interval = 5.0;          ///< seconds between snapshots at least; more when one takes long
    std::int64_t resume_step = -1;  ///< ≥ 0: continue the journal, forgetting rows after this step; else start anew
    bool events = false;            ///< RUN/tensorboard too, whenever metrics.h5 is made
    /// Of the checkpoint of that step: the journal as it was then, verified. One that begins otherwise, or is not
    /// there, is replaced by it. "": the checkpoint has none.
    std::string history{};
  };

  /// Writes into an existing directory; metrics.h5 is there with status "running" when it returns. A resume without
  /// history and without a journal, or with a damaged one, starts anew and says so in warnings(). Throws Error(files),
  /// also where a journal cannot be opened: it may well be whole.
  MetricsWriter(const std::string& directory, const RunInfo& info, const Options& options);
  MetricsWriter(const std::string& directory, const RunInfo& info) : MetricsWriter(directory, info, Options{}) {}
  ~MetricsWriter();  ///< makes a last snapshot, without reporting failure; call close() to know
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  void record_step(const StepRow& row);
  void record_evaluation(const std::string& split, const EvaluationRow& row);
  void record_efficiency(const EfficiencyRow& row);
  void record_loss_scale(const LossScaleRow& row);
  void record_timers(const std::vector<TimerRow>& rows);  ///< replaces
  void record_ranks(const std::vector<RankRow>& rows);    ///< replaces
  /// Utilisation (0 … 1) and power (W) of every rank, `seconds` after the run's start.
  void record_rank_sample(double seconds, const std::vector<double>& utilisation, const std::vector<double>& power);
  void set_status(RunStatus status);
  void set_total(const std::string& name, double value);  ///< root attribute "total_NAME"

  void sync();  ///< forces what was recorded to the disk; any thread
  /// What was recorded so far, as bytes of the journal; and those into a file, as Journal::copy does. Any thread.
  std::int64_t journal_bytes() const;
  std::optional<std::uint32_t> copy_journal(std::int64_t bytes, const std::string& to,
                                            Durability durability = Durability::forced) const;
  bool poll();      ///< a snapshot if the interval has passed and something changed; true if one was made
  void snapshot();  ///< metrics.h5 as of now
  void close();     ///< the last snapshot; nothing may be recorded afterwards
  void abandon();   ///< the directory is another's now: instead of close(), and writes nothing

  const std::vector<std::string>& warnings() const;  ///< of the start: rows lost or restored, damaged lines

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string metrics_path(const std::string& directory);  ///< DIRECTORY/metrics.h5
/// What a run that goes on without its journal keeps beside: metrics.before-step-N.h5, N its first step.
bool is_older_metrics(std::string_view name);
/// The last step that a run recorded there; 0 where there is none, or no journal that can be read.
std::int64_t last_recorded_step(const std::string& directory);
std::string metrics_journal_path(const std::string& directory);  ///< DIRECTORY/metrics.journal

std::string events_path(const std::string& directory);  ///< DIRECTORY/tensorboard, a folder

/// What a run records while it trains.
struct JournalPlan {
  std::int64_t text = 0;  ///< bytes of RunInfo's
  std::int64_t rows = 0, evaluations = 0;
  bool loss_scales = false;               ///< with each row of a step
  std::int64_t classes = 0, samples = 0;  ///< of an evaluation; no classes: no confusion matrix
};
/// Bytes of its journal at most; what restarts do again comes on top. Pure.
std::int64_t journal_bytes(const JournalPlan& plan);

/// Makes metrics.h5 from the journal alone, as it is after a kill. Returns the number of damaged lines left out.
std::int64_t rebuild_metrics(const std::string& directory);

}  // namespace bert_hpc::io
