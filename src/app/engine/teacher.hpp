// A teacher beside the student of a training: a model that is only applied, on the same grid and to the same
// micro-batches. Its outputs of a step are kept on the ranks with the student's head, which reads them in its loss, and
// hidden states that [distill] compares on the ranks with the student's.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "app/engine/memory_plan.hpp"
#include "app/engine/model_instance.hpp"
#include "app/engine/model_labels.hpp"
#include "app/engine/model_request.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/train/attention_loss.hpp"
#include "bert_hpc/train/distillation.hpp"
#include "bert_hpc/train/hidden_loss.hpp"
#include "bert_hpc/train/observed_step.hpp"

namespace bert_hpc::app {

/// Resolved words of [distill] losses. Throws Error(input) if the task has no such loss.
std::vector<std::string> soft_losses(const config::Config& input);

/// Loss between the outputs of both, of micro-batches with at most `rows` rows that the head reads. `input` is
/// resolved.
train::DistillationSettings distillation_settings(const config::Config& input, std::int64_t rows);

/// Use of the teacher's classifier beside a student of these labels: its rows are matched by name, or by number if one
/// of them has no names. Throws Error(input) if the labels differ.
ClassifierUse teacher_use(const config::Config& input, const LabelNames& teacher, const LabelNames& student);

/// What a run knows of its teacher before the model is made.
struct TeacherPlan {
  std::string folder;
  ModelRequest request;
  ClassifierUse classifier;
  std::vector<train::StatePair> pairs{};          ///< hidden states that are compared
  std::vector<train::AttentionPair> attention{};  ///< blocks whose attention is compared
  std::vector<train::StatePair> edges{};          ///< of both: each pair's lie on one rank
  float share = 0.5f;                             ///< of these losses in a step's
  core::DataType storage = core::DataType::fp32;  ///< of the student's activations
  std::int64_t projected = 0;                     ///< columns of the student's states, if they are projected; else 0
  std::vector<std::int64_t> balance{};            ///< sublayers of each stage of the pipeline; the caller sets it
};

/// The plan of [distill] teacher beside this student. Throws Error(input) and Error(data) if the folder is no teacher
/// of the student: tokenizer, labels, outputs, vocabulary or longest sequence.
TeacherPlan plan_teacher(const config::Config& input, const model::ModelConfig& student,
                         const data::ShardReader& reader);

/// Collective. Gives the student the teacher's embeddings, the blocks that [distill] initialize names, and its head if
/// that has the same shape.
void take_blocks(ModelInstance& student, const TeacherPlan& plan, const config::Config& input);

/// A training's loss in words.
std::string loss_text(const config::Config& input);

/// Lines of the banner. `student`: its number of blocks.
std::vector<std::pair<std::string, std::string>> teacher_lines(const config::Config& input, const TeacherPlan& plan,
                                                               std::int64_t student);

class Teacher : private train::PipelineEvents {
 public:
  /// `bounds`, `micro_batches`: of the student's training. Without `allocates` an estimate. Throws Error(input) if the
  /// teacher has fewer sublayers than the pipeline stages. `plan` must outlive it.
  Teacher(const TeacherPlan& plan, const comm::GridShape& grid, const comm::GridCoordinates& coordinates,
          const layers::BatchBounds& bounds, int micro_batches, bool allocates);

  /// Collective. Both must outlive the teacher.
  void connect(const comm::ProcessGroups& groups, core::Timers& timers);
  /// Collective. Values from the folder. `rules`: the student's; outputs are in its training's unit.
  void load(const objectives::OutputRules& rules);

  /// Collective over the pipeline and tensor groups: the outputs of a step's micro-batches, whose passes are the
  /// student's.
  void compute(std::span<const layers::StepContext> passes);
  /// (rows that the head reads, outputs of this rank) of a micro-batch of the last compute(), on ranks with the head.
  core::Tensor<float> outputs(int micro_batch);
  /// Losses that observe the student's passes; null if there is none.
  layers::StreamObserver* states() { return states_ ? &*states_ : nullptr; }
  layers::AttentionObserver* attention() { return attention_ ? &*attention_ : nullptr; }
  /// Number of pairs that these compare.
  std::int64_t pairs() const;
  /// Before the student's passes. step.losses has room for pairs().
  void begin(const train::ObservedStep& step);

  MemoryPlan memory() const;  ///< bytes of this rank

 private:
  void result(int micro_batch, model::Stage& stage, int slot) override;
  bool has_head() const;

  const TeacherPlan& plan_;
  ModelInstance model_;
  std::int64_t rows_ = 0;  // most of a micro-batch
  int micro_batches_ = 0;
  core::Buffer<float> outputs_;  // (micro-batches, rows, own outputs), on ranks with the head
  std::optional<train::HiddenLoss> states_;
  std::optional<train::AttentionLoss> attention_;
  std::vector<layers::StepContext> passes_;
};

}  // namespace bert_hpc::app
