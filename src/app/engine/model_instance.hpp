// The part of a model that one rank of a grid holds, ready to compute: parameters, stages, workspace, kernels and
// pipeline.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/engine/model_kernels.hpp"
#include "app/engine/model_request.hpp"
#include "bert_hpc/comm/process_groups.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/objectives/output_rules.hpp"
#include "bert_hpc/train/pipeline.hpp"
#include "bert_hpc/train/shared_gradients.hpp"
#include "bert_hpc/train/weight_gradients.hpp"

namespace bert_hpc::app {

class ModelInstance {
 public:
  /// Allocates the parameters of a rank at `coordinates` of a grid; values are zero. `balance`: number of sublayers of
  /// each part of the model, the same on every rank; each stage of the pipeline has equally many parts. Without
  /// `allocates` the instance is an estimate, which has sizes and no arenas. Throws Error(input) if the balance does
  /// not fit the model or the model cannot compute in the precision. Collective over the group of `memory`, if any.
  ModelInstance(const ModelRequest& request, const comm::GridShape& grid, const comm::GridCoordinates& coordinates,
                std::span<const std::int64_t> balance, bool allocates = true,
                const core::ParameterStore::Memory& memory = {});
  ModelInstance(const ModelInstance&) = delete;
  ModelInstance& operator=(const ModelInstance&) = delete;

  /// Plans for micro-batches of training (at most `micro_batches` a step) and of evaluation within these bounds (all
  /// zero where there are none) and, unless this is an estimate, allocates. Call once.
  void allocate(const layers::BatchBounds& training, int micro_batches, const layers::BatchBounds& evaluation);

  /// Collective. Makes the pipeline; after allocate(). Both must outlive the model. Several models may use the same
  /// groups, one after the other.
  void connect(const comm::ProcessGroups& groups, core::Timers& timers);

  layers::Engine engine() { return kernels.evaluation_engine(); }
  layers::Engine training_engine() { return kernels.training_engine(); }
  const comm::ProcessGroups& groups() const { return *groups_; }
  layers::TensorGroup tensor_group() { return {tensor_rank(), exchange_}; }
  train::Pipeline& pipeline() { return *pipeline_; }
  /// Location of the gradients of shared parameters when they are summed over micro-batches and replicas.
  train::SharedGradients::Sums shared_sums(bool reproducible) const;
  std::int64_t exchanged_rows() const { return exchanged_rows_; }  ///< most token rows that tensor ranks share
  std::int64_t message_bytes() const;                              ///< most that a stage sends another one at once

  /// What a part of the model consists of, or what one rank of a tensor group has of it.
  std::vector<core::ParameterSpec> parameters_of(const model::ModelRange& part,
                                                 const layers::TensorRank& share = {}) const;
  /// Parameters of the whole model without copies.
  std::vector<core::ParameterSpec> all_parameters() const;
  std::int64_t outputs() const;      ///< columns of the logits
  std::int64_t own_outputs() const;  ///< of them, on this rank of the tensor group
  /// Whether this training changes word embeddings that are tied to the decoder.
  bool trains_tied_embeddings() const;
  /// Whether their gradient comes from two slices (of one rank or of two).
  bool ties_gradients() const;

  /// Arena offset of each virtual stage's trainable parameters: segments of sums over replicas
  /// (train/shard_plan.hpp).
  std::vector<std::int64_t> segments() const;
  /// Gradients that the first micro-batch of a step replaces: those of the encoder's weights, or none.
  std::vector<train::ArenaRange> replaced_gradients() const;
  /// Arena offsets of the ranges that backward finishes at once, ascending.
  std::vector<std::int64_t> units() const;

  const objectives::Objective& objective;
  core::DataType storage;  ///< of activations
  model::ModelConfig config;
  model::ModelPlan plan;
  bool trains;     ///< the run changes its parameters; else it applies them
  bool allocates;  ///< false: an estimate
  comm::GridShape grid;
  comm::GridCoordinates coordinates;
  std::vector<model::ModelRange> parts;  ///< of the model; part v·pipeline + p is the virtual stage v of stage p
  core::ParameterStore parameters;
  std::vector<model::Stage> stages;  ///< of this rank, by virtual stage
  ModelKernels kernels;
  /// A training may have another unit than the labels' own, in which files hold the head. Set it before the values are
  /// loaded.
  objectives::OutputRules output_rules;
  /// Whether RUN/adapter needs a head that is not trained: the base model's folder does not have these values.
  bool head_is_new = false;
  core::Workspace workspace;

 private:
  std::vector<model::ModelRange> own_parts() const;
  std::vector<core::ParameterSpec> own_parameters() const;
  layers::TensorRank tensor_rank() const { return {coordinates.tensor, grid.tensor}; }

  train::PipelineSettings pipeline_settings_;
  layers::TensorExchange exchange_;
  std::int64_t exchanged_rows_ = 0;
  const comm::ProcessGroups* groups_ = nullptr;
  std::optional<train::Pipeline> pipeline_;
};

}  // namespace bert_hpc::app
