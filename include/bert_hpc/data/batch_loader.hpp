// BatchLoader: the micro-batches of this replica, step by step, prepared one step ahead by a thread of its own, so that
// the step loop finds them ready. What a step holds depends on (seed, step, samples) alone; the layout decides only
// which rank gets which part. All memory is taken at construction.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "bert_hpc/core/batch_plan.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "bert_hpc/data/batch_plan.hpp"
#include "bert_hpc/data/batch_sampler.hpp"
#include "bert_hpc/data/id_sorter.hpp"
#include "bert_hpc/data/label_scale.hpp"
#include "bert_hpc/data/masking.hpp"
#include "bert_hpc/data/sample_units.hpp"
#include "bert_hpc/data/shard_reader.hpp"

namespace bert_hpc::data {

struct BatchLoaderOptions {
  BatchPlanOptions plan;  ///< plan.global_batch sequences a step, after the warm-up, over plan.replicas
  BatchWarmup warmup{};
  int replica = 0;  ///< whose micro-batches are prepared
  const tasks::Task* task = &tasks::named({});
  SamplerOptions sampler;
  bool drop_last = false;
  double epochs = 0;                                    ///< length of the run in epochs, if `steps` is 0
  std::int64_t steps = 0;                               ///< length of the run in steps
  std::int64_t first_step = 0;                          ///< the first one of a resumed run
  double mask_probability = 0.15;                       ///< of tasks that mask tokens
  std::optional<double> evaluation_mask_probability{};  ///< of evaluations; none: as above
  bool mask_whole_words = false;                        ///< of tasks that mask tokens
  /// Whether a step draws groups, queries or rows of texts, instead of sequences. All sequences of a group are in one
  /// micro-batch, and plan.global_batch and plan.micro_sequences count groups.
  bool lists = false;
  LabelScales label_scales = {};  ///< of values: batches hold standardized labels
  bool last_tokens = false;       ///< heads of sequences read their last real tokens, else the first
  bool all_pieces = false;        ///< of classes of words: the head reads every token of a word, else its first
};

/// Sequences of an evaluation's step for each replica.
inline constexpr std::int64_t evaluation_window = 1024;

/// Every sample once, in windows of the file's order that are sorted by length and shared out to the replicas; masks
/// are those of epoch 0 and of one seed, whatever the run's, so that figures of runs compare. From the training's
/// options: layout, task, label scale, padding. micro_tokens: most tokens in a micro-batch, at least the longest
/// sequence. window: sequences of a step for each replica. With padding only a training that sorts sequences has
/// windows sorted.
BatchLoaderOptions evaluation_options(const BatchLoaderOptions& training, std::int64_t micro_tokens,
                                      std::int64_t window = evaluation_window);

struct LoadedMicroBatch {
  core::MicroBatch batch;         ///< in device memory that the step owns; may have no sequences
  core::MicroBatch on_host;       ///< the same for the host to read
  std::int64_t target_count = 0;  ///< core::target_count()
  int first_chunk = 0;            ///< of the plan
  int chunks = 0;
};

struct LoadedStep {
  std::int64_t step = 0;
  std::int64_t epoch = 0;
  core::BatchPlan plan;                         ///< of the global batch
  std::vector<LoadedMicroBatch> micro_batches;  ///< of this replica, in the plan's order; at least one
  std::int64_t target_count = 0;                ///< of this replica
  std::int64_t sequences = 0, tokens = 0;       ///< of this replica; tokens with padding

  /// Number of targets of the global batch, with lists the number of groups; −1 if the task masks tokens: sum
  /// target_count over the replicas then.
  std::int64_t global_target_count = 0;
};

class BatchLoader {
 public:
  /// `reader` is used by one loader at a time and outlives it. Throws Error(input) on batches that cannot be cut, and
  /// Error(data) on fewer samples than replicas. Starts preparing first_step.
  BatchLoader(ShardReader& reader, const BatchLoaderOptions& options);
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  const BatchSchedule& schedule() const { return sampler_.schedule(); }
  std::int64_t total_steps() const { return total_steps_; }  ///< of the run, first_step included
  const BatchPlanBounds& bounds() const { return bounds_; }  ///< no step exceeds them
  /// The longest sequence, padding included.
  std::int64_t max_length() const { return options_.plan.padding.rows(reader_.info().max_length); }
  std::int64_t units() const { return units_ ? units_->count() : reader_.samples(); }  ///< what steps draw from
  double sequences_per_unit() const {
    return units_ ? static_cast<double>(units_->samples()) / static_cast<double>(units_->count()) : 1.0;
  }
  /// Most rows that the head reads of a micro-batch.
  std::int64_t max_targets() const { return max_targets_; }
  std::int64_t memory_bytes() const;  ///< held for prepared steps

  /// Waits for the next step. It stays valid until the following call of next, restart or the destructor. Rethrows what
  /// went wrong while preparing it. Do not call it after total_steps() were delivered.
  const LoadedStep& next();
  bool has_next() const { return next_step_ < total_steps_; }
  std::int64_t next_step() const { return next_step_; }

  /// Continues at another step, e.g. 0 for the next evaluation.
  void restart(std::int64_t step);

 private:
  static constexpr std::size_t array_alignment = 64;  // bytes

  /// A prepared step and the memory its pointers lead to: the thread's, and the device's where that is another one.
  struct Slot {
    LoadedStep step;
    std::unique_ptr<std::byte[]> own;
    core::Buffer<std::byte> pinned, device;
    core::DeviceMark copied;      // from pinned to device
    std::byte* memory = nullptr;  // own or pinned
    std::size_t used = 0;
  };

  void run();
  void stop();
  void prepare(std::int64_t step, Slot& slot);
  static void upload(Slot& slot);
  void fill(std::span<const core::PlannedSample> samples, Slot& slot, LoadedMicroBatch& loaded);
  void fill_lengths(std::span<const core::PlannedSample> samples, Slot& slot, core::MicroBatch& batch) const;
  void fill_one_token_each(Slot& slot, core::MicroBatch& batch) const;
  void fill_all_tokens(Slot& slot, core::MicroBatch& batch) const;
  void fill_labels(Slot& slot, core::MicroBatch& batch) const;
  void fill_words(Slot& slot, core::MicroBatch& batch) const;
  std::int64_t targets_of(const core::BatchPlan& plan) const;
  std::int64_t known_values(std::int64_t sample) const;
  std::int64_t word_rows(std::int64_t sample) const;
  void fill_lists(std::span<const core::PlannedSample> samples, Slot& slot, core::MicroBatch& batch) const;
  void fill_texts(std::span<const core::PlannedSample> samples, Slot& slot, core::MicroBatch& batch) const;
  void fill_next_tokens(std::span<const core::PlannedSample> samples, Slot& slot, core::MicroBatch& batch) const;
  void fill_masked_tokens(std::span<const core::PlannedSample> samples, std::int32_t* ids, Slot& slot,
                          core::MicroBatch& batch);
  void add_first_tokens(Slot& slot, core::MicroBatch& batch) const;
  template <class T>
  T* take(Slot& slot, std::int64_t count) const;
  std::size_t bytes_needed() const;
  std::int64_t most_targets(std::int64_t tokens, std::int64_t sequences) const;
  std::int64_t max_masked(std::int64_t tokens, std::int64_t sequences) const;

  ShardReader& reader_;
  BatchLoaderOptions options_;
  std::unique_ptr<SampleUnits> units_;  // of lists
  BatchSampler sampler_;
  BatchPlanner planner_;
  BatchPlanBounds bounds_;
  IdSorter id_sorter_;
  std::unique_ptr<Masker> masker_;
  std::vector<std::int32_t> class_inside_;  // of classes of words: that of a word's further tokens
  std::int32_t pad_id_ = 0;                 // that of Hugging Face's models if shards do not know it
  std::int64_t max_targets_ = 0;
  std::int64_t total_steps_ = 0;
  std::size_t slot_bytes_ = 0;
  std::vector<std::int64_t> samples_;  // of the step in preparation
  std::vector<std::int32_t> lengths_;

  Slot slots_[2];  // one is read while the other is prepared; step s lies in slot s mod 2
  std::thread thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  std::int64_t prepared_ = 0;  // steps before it are prepared
  std::int64_t free_ = 0;      // steps before it may be prepared
  bool stopping_ = false;
  std::exception_ptr error_;
  // The caller's thread alone reads and writes these:
  std::int64_t next_step_ = 0;
};

template <class T>
T* BatchLoader::take(Slot& slot, std::int64_t count) const {
  void* memory = slot.memory + slot.used;
  std::size_t space = slot_bytes_ - slot.used;
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
  core::require(std::align(array_alignment, bytes, memory, space) != nullptr,
                "a step needs more memory than was planned");
  slot.used = static_cast<std::size_t>(static_cast<std::byte*>(memory) + bytes - slot.memory);
  return static_cast<T*>(memory);
}

}  // namespace bert_hpc::data
