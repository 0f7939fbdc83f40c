// RUN/metrics.h5: everything that a run records, readable with plain h5py.File(path) at any moment, also after a kill.
// record_* appends each row at once to a journal (RUN/metrics.journal). Every few seconds and at the end, metrics.h5 is
// built in memory from all rows, written to a staging file and renamed. After a kill, the next start restores
// metrics.h5 from the journal. TensorBoard's event files (RUN/tensorboard) come from the same rows at the same times.
//
// record_* and set_* may be called from any thread and take microseconds. poll(), snapshot() and close() call HDF5 and
// must run on the I/O thread. One process of a run writes metrics (rank 0).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bert_hpc/core/clock.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/io/atomic_write.hpp"

namespace bert_hpc::io {

/// The loss of evaluations in a training on standardized labels, in words; in mode evaluate it is of labels as they
/// are.
inline constexpr const char* standardized_loss = "loss of standardized labels";

/// Provenance of a run. All text is UTF-8.
struct RunInfo {
  std::string version;                                          ///< of bert_hpc
  std::string source_revision;                                  ///< commit; "unknown" if there is none
  std::string resolved_input;                                   ///< TOML
  std::string started;                                          ///< UTC, "2026-01-31T12:00:00Z"; empty: now
  std::string mode, task;                                       ///< as in the input file
  std::vector<std::string> label_names;                         ///< of the outputs
  std::vector<std::pair<std::string, std::string>> provenance;  ///< name, value: library versions, hashes
  std::int64_t data = 0, pipeline = 0, tensor = 0;              ///< parallel grid sizes; 0: unknown
  /// Mean and standard deviation of the training labels, of each label column, if the model trains on standardized
  /// labels.
  std::vector<double> label_means, label_deviations;

  bool standardizes() const { return !label_deviations.empty(); }
  std::int64_t parameters = 0, trained_parameters = 0;  ///< of the whole model; 0: unknown
};

/// The updates since the previous row: sums for samples, tokens and seconds; for the loss the mean over samples or
/// masked tokens (of updates that were not skipped; NaN if all were); the last step's value for the others. Steps,
/// epochs, samples and tokens include skipped updates, which take time too, so speeds can be computed from them.
struct StepRow {
  std::int64_t step = 0;  ///< number of updates done, from 1
  double epoch = 0;       ///< completed epochs, with a fraction
  double loss = 0;        ///< mean over the samples, or the masked tokens
  double learning_rate = 0;
  double gradient_norm = 0;  ///< before clipping
  std::int64_t samples = 0, tokens = 0;
  double seconds = 0;        ///< duration of these updates
  std::int64_t skipped = 0;  ///< number of these updates skipped because loss or gradient was not finite
  double time = 0;           ///< s since 1970, set when recorded; 0 in files of older versions
  /// Tokens that were computed, padding included. Without padding, as in files of older versions, equal to `tokens`.
  std::int64_t computed_tokens = 0;
};

struct EvaluationRow {
  std::int64_t step = 0;
  double loss = 0;
  std::vector<std::pair<std::string, double>> metrics;  ///< name, value; e.g. "accuracy"
  std::int64_t classes = 0;                             ///< 0: no confusion matrix
  std::vector<std::int64_t> confusion_matrix;           ///< (actual classes, predicted classes), row-major
  double time = 0;                                      ///< as in StepRow
  /// (3, classes), row-major: how often each class is the label, is predicted, and is both; empty: unknown.
  std::vector<std::int64_t> class_counts{};
  /// (3, entity types): gold, found and correct entities of each type of metrics::entity_types(); empty without.
  std::vector<std::int64_t> type_counts{};
};

/// For training in fp16.
struct LossScaleRow {
  std::int64_t step = 0;
  double scale = 1;
  std::int64_t skipped = 0;  ///< updates skipped so far
  double time = 0;           ///< as in StepRow
};

struct EfficiencyRow {
  std::int64_t step = 0;
  double noise_scale = 0, efficiency = 0, goodput = 0;
};

/// What was read of the files of the training data since the previous row, or since this start of the run. A row for
/// each epoch, or for several short ones, and one where a start ends.
struct DataRow {
  std::int64_t step = 0;
  double epoch = 0;
  std::int64_t file_bytes = 0;           ///< of all files
  std::vector<std::int64_t> bytes_read;  ///< (nodes, in the order of their first ranks)
};

struct TimerRow {
  std::string name;
  std::int64_t calls = 0;
  double seconds_min = 0, seconds_avg = 0, seconds_max = 0;  ///< over ranks, by the host's clock
  // By the device's clock; NaN on CPUs, where the host's is that.
  double device_seconds_min = std::numeric_limits<double>::quiet_NaN();
  double device_seconds_avg = std::numeric_limits<double>::quiet_NaN();
  double device_seconds_max = std::numeric_limits<double>::quiet_NaN();

  bool has_device() const { return !std::isnan(device_seconds_avg); }
};

struct RankRow {
  std::string host, device;
  std::int64_t threads = 0;
  std::int64_t peak_memory = 0;                          ///< bytes
  double utilisation = 0;                                ///< share of the steps' time spent computing, 0 … 1; NaN if
                                                         ///< unknown
  double power = 0;                                      ///< W, NaN if unknown
  std::int64_t start_memory = 0, planned_memory = 0;     ///< bytes: resident before set-up; planned in addition
  double computing = 0, communicating = 0, waiting = 0;  ///< seconds; NaN if unknown (GPUs)
  /// Of the rank's GPU, including other processes on it: share of the time in which a kernel ran (0 … 1), peak memory
  /// (bytes), energy (J); NaN if unknown.
  double gpu_utilisation = 0, gpu_memory = 0, energy = 0;

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.host, self.device, self.threads, self.peak_memory, self.utilisation, self.power,
                    self.start_memory, self.planned_memory, self.computing, self.communicating, self.waiting,
                    self.gpu_utilisation, self.gpu_memory, self.energy);
  }
};

/// Planned memory for one purpose.
struct MemoryRow {
  std::string purpose;              ///< "optimizer states", "activations", …
  std::vector<std::int64_t> bytes;  ///< (ranks)
};

/// One kind of call of one timer section in the profiled steps.
struct ProfileRow {
  std::string section;                                       ///< "": between sections
  std::string kind, name;                                    ///< kind: one of core::device_call_names
  std::int64_t calls = 0;                                    ///< of all ranks
  double seconds_min = 0, seconds_avg = 0, seconds_max = 0;  ///< on the device, over ranks; NaN: not measured
  double flops = 0, bytes = 0;                               ///< of all ranks; NaN: unknown
};

/// What each kind of call took in a few steps.
struct Profile {
  std::int64_t first_step = 0, steps = 0;  ///< number of its first update, from 1, and how many
  std::int64_t ranks = 0;
  std::int64_t on_gpu = 0;  ///< 1: times are the GPU's; 0: the CPU's
  double seconds = 0;       ///< of these steps with their data by the host's clock, mean over ranks
  double cost = 0;          ///< of these seconds, what measuring took
  double peak_gflops = 0;   ///< of one rank, as the input says; 0: unknown
  std::vector<ProfileRow> rows{};
};

enum class RunStatus { running, finished, failed, stopped };

class MetricsWriter {
 public:
  struct Options {
    double interval = 5.0;          ///< minimum seconds between snapshots; more if one takes long
    std::int64_t resume_step = -1;  ///< ≥ 0: continue the journal without rows after this step; else start an empty one
    bool events = false;            ///< also write RUN/tensorboard whenever metrics.h5 is written
    /// Path of the verified journal in the checkpoint of that step. A run journal that is missing or does not begin
    /// with these bytes is replaced by it. "": the checkpoint has none.
    std::string history{};
    core::Clock* clock = &core::steady_clock();  ///< by which poll() decides
  };

  /// Writes into an existing directory; metrics.h5 exists with status "running" when it returns. A resume without
  /// history whose journal is missing or damaged starts an empty journal and reports that in warnings(). Throws
  /// Error(files), also if a journal cannot be opened, since its content may be intact.
  MetricsWriter(const std::string& directory, const RunInfo& info, const Options& options);
  MetricsWriter(const std::string& directory, const RunInfo& info) : MetricsWriter(directory, info, Options{}) {}
  ~MetricsWriter();  ///< writes a last snapshot without reporting errors; call close() to detect them
  MetricsWriter(const MetricsWriter&) = delete;
  MetricsWriter& operator=(const MetricsWriter&) = delete;

  void record_step(const StepRow& row);
  void record_evaluation(const std::string& split, const EvaluationRow& row);
  void record_efficiency(const EfficiencyRow& row);
  void record_loss_scale(const LossScaleRow& row);
  void record_data(const DataRow& row);
  void record_timers(const std::vector<TimerRow>& rows);   ///< replaces earlier rows
  void record_ranks(const std::vector<RankRow>& rows);     ///< replaces earlier rows
  void record_memory(const std::vector<MemoryRow>& rows);  ///< replaces earlier rows
  void record_profile(const Profile& profile);             ///< replaces an earlier one
  /// Utilization (0 … 1), power (W) and memory in use (bytes) of every rank, `seconds` after the run's start; NaN:
  /// unknown.
  void record_rank_sample(double seconds, const std::vector<double>& utilisation, const std::vector<double>& power,
                          const std::vector<double>& memory);
  void set_status(RunStatus status);
  void set_total(const std::string& name, double value);  ///< root attribute "total_NAME"

  void sync();  ///< forces all recorded rows to the disk; any thread
  /// Size in bytes of the journal so far; and a copy of such a prefix, as Journal::copy. Any thread.
  std::int64_t journal_bytes() const;
  std::optional<std::uint32_t> copy_journal(std::int64_t bytes, const std::string& to,
                                            Durability durability = Durability::forced) const;
  bool poll();      ///< takes a snapshot if the interval has passed and something changed; true if it did
  void snapshot();  ///< writes metrics.h5 now
  void close();     ///< takes the last snapshot; nothing may be recorded afterwards
  void abandon();   ///< instead of close() when another process has taken over the directory; writes nothing

  const std::vector<std::string>& warnings() const;  ///< from the start: rows lost or restored, damaged lines

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string metrics_path(const std::string& directory);  ///< DIRECTORY/metrics.h5
/// True for the name of the metrics.h5 that a run keeps when it resumes without its journal: metrics.before-step-N.h5,
/// with N the first step after it.
bool is_older_metrics(std::string_view name);
/// The last step recorded in that directory; 0 if there is none, or no readable journal.
std::int64_t last_recorded_step(const std::string& directory);
std::string metrics_journal_path(const std::string& directory);  ///< DIRECTORY/metrics.journal

std::string events_path(const std::string& directory);  ///< DIRECTORY/tensorboard, a folder

/// The amount of data that a run records while it trains.
struct JournalPlan {
  std::int64_t text = 0;  ///< bytes of RunInfo's text
  std::int64_t rows = 0, evaluations = 0, epochs = 0;
  std::int64_t nodes = 1;
  bool loss_scales = false;  ///< one with each step row
  bool profile = false;
  // Confusion matrix of an evaluation.
  std::int64_t classes = 0, samples = 0;  ///< classes = 0: no confusion matrix
  std::int64_t counted_classes = 0;       ///< in EvaluationRow::class_counts
  std::int64_t metrics = 0;
  std::int64_t metric_text = 0;  ///< bytes of label columns' names in names of metrics
};
/// Upper bound of the journal's size in bytes; rows that restarts repeat come on top. Pure.
std::int64_t journal_bytes(const JournalPlan& plan);

}  // namespace bert_hpc::io
