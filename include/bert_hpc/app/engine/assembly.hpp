// From the input and the data to a model that can run on its place in the grid: configuration of the model, the parts
// of it that this rank holds, engine, memory, pipeline.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/app/run/run_directory.hpp"
#include "bert_hpc/comm/process_groups.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/label_scale.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/train/pipeline.hpp"
#include "bert_hpc/train/weight_gradients.hpp"

namespace bert_hpc::app {

/// task.mask_probability, also of an input that is not resolved.
double mask_probability(const config::Config& input);

/// Rows that the head reads of so many sequences and tokens: expected of a large number of them.
double expected_targets(const config::Config& input, double sequences, double tokens);

/// The model as the input states it, before the data are known: `pretrained`'s config.json with the keys of [model]
/// over it, or BERT-base's values with them. Throws Error.
model::ModelConfig stated_model(const config::Config& input);

/// Writes the values of the stated model into [model], where the input leaves them to defaults or to `pretrained`;
/// vocab_size only from there, as it comes with the shards otherwise. Then the input's text, and its defaults'. Throws
/// Error.
ResolvedInput resolved_input(config::Config& input, const model::ModelConfig& stated);

/// Completes it with what the data say: vocabulary (where [model] states none and nothing is pretrained), labels,
/// special tokens. Throws Error(data) where data and model do not go together.
model::ModelConfig complete_model(const config::Config& input, const model::ModelConfig& stated,
                                  const data::ShardInfo& shards, const data::SpecialIds& special);

/// What of a shard must fit the model; zeros where the model takes what the data say.
data::ShardLimits shard_limits(const config::Config& input, const model::ModelConfig& stated, bool labels);

/// In what activations, and products' operands, are kept: precision.compute.
core::DataType storage_type(const config::Config& input);
ops::ProductSettings product_settings(const config::Config& input,
                                      core::DataType weight_gradients = core::DataType::fp32);
/// In what a training stores gradients of the blocks' weights, with at most `micro_batches` a step of a replica.
core::DataType weight_gradient_type(const config::Config& input, const comm::GridShape& grid, int micro_batches);

/// Planned memory of this rank by what it is for, bytes.
using MemoryPlan = std::vector<std::pair<std::string, std::int64_t>>;
std::int64_t total(const MemoryPlan& plan);

class Assembly {
 public:
  enum class Purpose {
    estimate,    ///< nothing is allocated
    evaluation,  ///< values alone
    training,
  };

  /// Allocates the parameters of this place in a grid; values are zero. `balance`: sublayers of each part
  /// of the model (app/plan/pipeline_setup.hpp), the same on every rank. Throws Error(input) where they do not fit the
  /// model. Collective over the group whose `memory` it is, if any.
  Assembly(const config::Config& input, const model::ModelConfig& config, Purpose purpose, const comm::GridShape& grid,
           const comm::GridPlace& place, std::span<const std::int64_t> balance,
           const core::ParameterStore::Memory& memory = {});
  Assembly(const Assembly&) = delete;
  Assembly& operator=(const Assembly&) = delete;

  /// Plans for micro-batches of training (at most `micro_batches` a step) and of evaluation within these bounds (all
  /// zero where there are none) and, unless this is an estimate, allocates. Call once.
  void allocate(const layers::BatchBounds& training, int micro_batches, const layers::BatchBounds& evaluation);

  /// Makes the pipeline; after allocate(). Both must outlive the assembly.
  void connect(const comm::ProcessGroups& groups, core::Timers& timers);

  /// Collective over all ranks, after connect(). The ranks of the first replica initialise or load their parameters,
  /// the other replicas get them. Returns what there is to tell, on rank 0.
  std::string load_values(const config::Config& input);
  /// Collective. The same from any Hugging Face folder that has every parameter.
  void load_folder(const std::string& folder);

  layers::Engine engine() { return {*products, *attention}; }
  /// Evaluations compute in bf16 where training does in FP8: they are of the model that is exported.
  layers::Engine training_engine() { return {*products, *attention, fp8.get()}; }
  const comm::ProcessGroups& groups() const { return *groups_; }
  train::Pipeline& pipeline() { return *pipeline_; }
  /// Of a training or evaluation: all but parameters, gradients and states, which a training's shard plan tells.
  MemoryPlan memory(bool trains) const;

  /// What a part of the model consists of, or what one rank of a tensor group has of it.
  std::vector<core::ParameterSpec> parameters_of(const model::ModelRange& part,
                                                 const layers::TensorPlace& share = {}) const;
  /// Of the whole model, copies left out.
  std::vector<core::ParameterSpec> all_parameters() const;
  std::int64_t outputs() const;  ///< columns of the logits
  /// Does the word embeddings' gradient come from two slices (of one rank or of two)?
  bool ties_gradients() const;

  /// Where in the arena each virtual stage begins: segments of sums over replicas (train/shard_plan.hpp).
  std::vector<std::int64_t> segments() const;
  /// Gradients that the first micro-batch of a step replaces: those of the encoder's weights, or none.
  std::vector<train::ArenaRange> replaced_gradients() const;
  /// Where what backward finishes at once begins, ascending.
  std::vector<std::int64_t> units() const;

  const objectives::Objective& objective;
  core::DataType storage;  ///< of activations
  model::ModelConfig config;
  Purpose purpose;
  comm::GridShape grid;
  comm::GridPlace place;
  std::vector<model::ModelRange> parts;  ///< of the model; part v·pipeline + p is the virtual stage v of stage p
  core::ParameterStore parameters;
  std::vector<model::Stage> stages;  ///< of this rank, by virtual stage
  /// A regression in training: the head predicts standardized labels, and files hold it in the labels' unit. Set it
  /// before load_values(); modes that do not train leave it.
  data::LabelScale label_scale;
  std::unique_ptr<ops::MatrixProduct> products;
  std::unique_ptr<ops::Fp8Product> fp8;  ///< trainings with precision.compute = "fp8"
  std::unique_ptr<ops::Attention> attention;
  core::Workspace workspace;

 private:
  std::vector<model::ModelRange> own_parts() const;
  std::vector<core::ParameterSpec> own_parameters() const;
  layers::TensorPlace tensor_place() const { return {place.tensor, grid.tensor}; }
  std::int64_t message_bytes() const;  ///< most that a stage sends another one at once
  void require_precision(const config::Config& input) const;
  void tune(const layers::BatchBounds& training);
  void make_fp8(const config::Config& input);

  train::PipelineSettings pipeline_settings_;
  layers::TensorExchange exchange_;
  std::int64_t exchanged_rows_ = 0;
  const comm::ProcessGroups* groups_ = nullptr;
  std::int64_t fp8_bytes_ = 0;
  std::optional<train::Pipeline> pipeline_;
  std::int64_t kept_weights_bytes_ = 0, scratch_bytes_ = 0;
};

}  // namespace bert_hpc::app
