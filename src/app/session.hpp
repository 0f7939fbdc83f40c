// Everything that a mode computes with, made in phases. The phases run in this order. Each is collective and needs the
// phases before it. Members are declared in the order of the phases, so that each outlives its users:
//
//   data           the model that the input states, the data sets                            SessionData
//   communicators  the groups of ranks                                                       Session
//   model          its configuration, its cut into stages, batches, the parameters' arenas   Session
//   memory         everything that a step or an evaluation computes in                       Session
//   state          the pipeline, then parameters from a folder or a checkpoint               connect(), then the mode
//
// An estimate (--validate) has no communicators, arenas or gradient reducer and ends after the phase "memory".
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "app/engine/data_sets.hpp"
#include "app/engine/embedder.hpp"
#include "app/engine/evaluator.hpp"
#include "app/engine/model_instance.hpp"
#include "app/engine/model_loading.hpp"
#include "app/engine/teacher.hpp"
#include "app/engine/teacher_scores.hpp"
#include "app/plan/pipeline_setup.hpp"
#include "app/report/grid_picture.hpp"
#include "app/run/run_context.hpp"
#include "bert_hpc/core/timers.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/train/data_parallel.hpp"
#include "bert_hpc/train/step_loss.hpp"

namespace bert_hpc::app {

/// Phase "data". It depends on no session, so that several models of a run can read the same data.
struct SessionData {
  /// Collective.
  explicit SessionData(const RunContext& context);

  /// The training data; in other modes the test data or, if there are none, the validation data.
  data::ShardReader& primary() const;

  model::ModelConfig stated;
  DataSets sets;
};

/// A model and all that it computes in.
class Session {
 public:
  /// Collective: the phases "communicators", "model" and "memory". `trains`: the run trains this model; else it applies
  /// it, to the same data. Both arguments must outlive the session.
  Session(const RunContext& context, SessionData& data, bool trains);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Collective. The phase "state" begins: makes the pipeline.
  void connect();

  bool trains() const { return trains_; }
  bool estimates() const { return context_.invocation.validate; }
  /// Most micro-batches of a replica in a training step; 0 in other modes.
  int micro_batches() const;

  /// How replicas share this model's arena. Pure.
  train::ShardSettings shards_of(const ModelInstance& instance) const;
  /// Settings of the step loss on the model's rank (app/engine/step_loss.hpp).
  std::optional<train::StepLossSettings> step_loss(const ModelInstance& instance) const;
  /// Loss between the outputs of student and teacher; none without a teacher.
  std::optional<train::DistillationSettings> distillation() const;
  /// Planned memory of this model's rank. Pure.
  MemoryPlan memory_of(const ModelInstance& instance) const;
  MemoryPlan memory() const { return memory_of(*model); }
  /// How mode "embed" stores what it computes. Pure.
  EmbeddingFormat embedding_format() const;

  /// Planned memory with another input of the same data and layout, of the rank that takes most. Pure.
  std::int64_t most_bytes_with(const config::Config& input) const;

  /// Collective. Prints the banner with these lines and the warnings about the ranks' placement and memory.
  void describe(const std::vector<std::pair<std::string, std::string>>& lines) const;

  DataSets& sets;
  std::optional<comm::ProcessGroups> groups;  ///< none in an estimate
  core::Timers timers;

  // Model.
  std::int64_t usual_micro_tokens = 0;  ///< if the input does not say
  PipelineSetup pipeline;
  data::BatchLoaderOptions batches;
  train::LossOptions loss;
  objectives::OutputRules output_rules;
  std::optional<data::BatchLoader> loader;  ///< of the training data
  std::optional<ModelInstance> model;
  LoadNotes load_notes;                     ///< of an estimate
  std::optional<TeacherPlan> teacher_plan;  ///< of a training with a teacher
  std::optional<ScoresPlan> scores_plan;    ///< of a training with a teacher's stored outputs

  // Memory.
  std::optional<Evaluator> validation, test;  ///< modes "evaluate" and "predict" have one of them
  std::vector<std::pair<std::string, std::unique_ptr<Embedder>>> embedders;  ///< of mode "embed", by split
  layers::BatchBounds bounds, evaluation_bounds;
  std::optional<Teacher> teacher;             ///< beside the student; none in an estimate
  std::optional<TeacherScores> scores;        ///< likewise
  std::unique_ptr<train::DataParallel> sums;  ///< the gradient reducer; null unless the model is trained now
  std::int64_t message_bytes = 0;             ///< of the reducer

 private:
  comm::GridCoordinates own_coordinates() const;  ///< in an estimate with fewer planned ranks: the last one's
  void make_model();
  std::int64_t beside_model(const ModelInstance& instance) const;
  void cut_model(const model::ModelConfig& config);
  /// Sublayers of each stage of a model that is only applied.
  std::vector<std::int64_t> balance_of_applied(const model::ModelConfig& config, const config::Config& input) const;
  void make_instance(const model::ModelConfig& config, bool allocates, const core::ParameterStore::Memory& memory);
  void plan_memory();
  void add_embedders();
  MemoryPlan teacher_memory(const comm::GridCoordinates& coordinates) const;
  void make_reducer();
  /// Type of the gradients, for estimates too.
  core::ParameterStore::Memory gradient_memory(const model::ModelConfig& config) const;
  StageFacts facts_at(const comm::GridCoordinates& coordinates) const;

  const RunContext& context_;
  SessionData& data_;
  bool trains_;
};

}  // namespace bert_hpc::app
