// What a run leaves in its directory while it goes and when it ends; rank 0 writes, the others do nothing.
#pragma once

#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "app/engine/evaluator.hpp"
#include "app/engine/memory_plan.hpp"
#include "app/engine/model_instance.hpp"
#include "app/report/rank_time.hpp"
#include "app/report/usage_monitor.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/io/metrics.hpp"
#include "bert_hpc/io/run_lock.hpp"

namespace bert_hpc::app {

/// What metrics.h5 says of a run's model.
struct ModelFacts {
  std::vector<std::string> label_names{};
  std::vector<double> label_means{}, label_deviations{};  ///< of standardized labels
  std::int64_t parameters = 0, trained_parameters = 0;
};
ModelFacts facts_of(const ModelInstance& model);

class Results {
 public:
  /// The point at which a run resumes: after which update, and how much of log.txt stays; the checkpoint's metric
  /// history, if any.
  struct Continuation {
    std::int64_t step = 0, log_bytes = 0;
    std::string history{};
  };

  /// Collective. Begins the run in its directory: what an earlier run left there goes now, metrics and log start; or
  /// they are cut back to where the run resumes. `hdf5` is held during HDF5 calls.
  /// `run_lock`: of the directory, on rank 0. It must outlive this.
  Results(const RunContext& context, io::RunLock* run_lock, const ModelFacts& model, std::mutex& hdf5,
          const std::optional<Continuation>& continuation = {});
  /// Marks the run as failed unless finish() was called or the directory is another's now.
  ~Results();
  Results(const Results&) = delete;
  Results& operator=(const Results&) = delete;

  void record_step(const io::StepRow& row);
  void record_evaluation(const std::string& split, const io::EvaluationRow& row);
  void record_efficiency(const io::EfficiencyRow& row);
  /// Collective. bytes_read: of the training data's files by this rank, since the run began.
  void record_data(std::int64_t step, double epoch, std::int64_t file_bytes, std::int64_t bytes_read);
  void record_loss_scale(const io::LossScaleRow& row);
  void record_profile(const io::Profile& profile);
  void poll();                     ///< a snapshot of metrics.h5 when due
  void sync() const;               ///< forces what was recorded to the disk; any thread
  bool lost() const;               ///< the directory's lock is another's now, as far as was seen
  void require_lock() const;       ///< looks. Throws Error(files) if it is; any thread
  std::int64_t log_bytes() const;  ///< of log.txt; 0 but on rank 0
  /// Bytes of the metrics' journal so far, which checkpoints keep; 0 on ranks other than 0.
  std::int64_t journal_bytes() const;
  /// On rank 0: those into a file, as io::Journal::copy does. Any thread.
  std::optional<std::uint32_t> copy_journal(std::int64_t bytes, const std::string& to,
                                            io::Durability durability = io::Durability::forced) const;

  /// Collective. RUN/model in Hugging Face's form; the tokenizer's files come from where the data or the weights are.
  /// `shards`: what it was trained on.
  void export_model(ModelInstance& model, const data::ShardInfo& shards);

  /// For an evaluation of the split of this name that writes predictions. This must outlive it.
  objectives::PredictionsFacts predictions_of(const std::string& split, const ModelInstance& model) const;

  /// Collective. Timers of all ranks into metrics.h5; returns them for the table. The last row, "other", is the rest of
  /// each rank's `wall_seconds`.
  std::vector<io::TimerRow> record_timers(const core::Timers& timers, double wall_seconds);
  /// Collective. Hosts, devices, threads, memory and GPUs of all ranks: what was resident before set-up
  /// (`start_memory`), what was planned beside it and the peak, bytes. Returns the rows.
  std::vector<io::RankRow> record_ranks(const RunContext& context, const std::string& device, const MemoryPlan& planned,
                                        const RankTime& time = {});

  /// Collective. The status "stopped" and the last snapshot: the run is to be submitted again.
  void stop();

  /// Collective. Totals, the status "finished" and the last snapshot.
  void finish(const std::vector<std::pair<std::string, double>>& totals);

  std::string model_folder() const { return input_.run.directory + "/model"; }
  std::string adapter_folder() const { return input_.run.directory + "/adapter"; }  ///< of a training of adapters

 private:
  void record_samples(const std::vector<std::vector<UsageSample>>& samples);

  const config::Config& input_;
  io::RunLock* lock_;  // null but on rank 0
  comm::Communicator& world_;
  std::mutex& hdf5_;
  UsageMonitor monitor_;                        // of this rank
  std::unique_ptr<io::MetricsWriter> metrics_;  // rank 0
  std::int64_t bytes_recorded_ = 0;             // of what this rank has read
  bool finished_ = false;
};

/// What one rank measured of a section.
struct SectionTime {
  std::string name;
  std::int64_t calls = 0;
  double seconds = 0;
  double device_seconds = std::numeric_limits<double>::quiet_NaN();  ///< NaN without a device's clock

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.name, self.calls, self.seconds, self.device_seconds);
  }
};

/// Sections over ranks, from each rank's; a rank that lacks one has spent 0 seconds in it.
std::vector<io::TimerRow> timers_of_all(const std::vector<std::vector<SectionTime>>& ranks);

/// Planned memory over ranks, from each rank's plan; a rank whose plan lacks a purpose has 0 bytes for it. Pure.
std::vector<io::MemoryRow> memory_of_all(const std::vector<MemoryPlan>& ranks);

/// Folder with the tokenizer's files: that of the shards if it has the vocabulary that they were made with, else of the
/// pretrained model, else "": a model never gets a vocabulary that is not its own.
std::string tokenizer_folder(const config::Config& input, const data::ShardInfo& shards, std::int64_t vocab_size);

}  // namespace bert_hpc::app
