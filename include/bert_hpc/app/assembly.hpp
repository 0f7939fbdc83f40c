// From the input and the data to a model that can run: configuration of the model, parameters, engine, memory.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/train/evaluation_metrics.hpp"

namespace bert_hpc::app {

/// What a task means for data, head and metrics.
struct TaskTraits {
  data::ShardTask shards = data::ShardTask::classification;
  model::HeadKind kind = model::HeadKind::classification;
  model::BertHead head = model::BertHead::sequence_classification;
  train::EvaluationSums::Kind metrics = train::EvaluationSums::Kind::classification;
};
TaskTraits task_traits(const std::string& task_name);

/// The model as the input states it, before the data are known: `pretrained`'s config.json with the keys of [model]
/// over it, or BERT-base's values with them. Throws Error.
model::BertConfig stated_model(const config::Config& input);

/// Completes it with what the data say: vocabulary (where [model] states none and nothing is pretrained), labels,
/// special tokens. Throws Error(data) where data and model do not go together.
model::BertConfig complete_model(const config::Config& input, const model::BertConfig& stated,
                                 const data::ShardInfo& shards, const data::SpecialIds& special);

/// What of a shard must fit the model; zeros where the model takes what the data say.
data::ShardLimits shard_limits(const config::Config& input, const model::BertConfig& stated, bool labels);

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

  /// Allocates parameters for a group of `ranks`; values are zero.
  Assembly(const config::Config& input, const model::BertConfig& config, Purpose purpose, int ranks);

  /// Plans for micro-batches of training and of evaluation within these bounds (all zero where there are none) and,
  /// unless this is an estimate, allocates. Call once.
  void allocate(const layers::BatchBounds& training, const layers::BatchBounds& evaluation);

  /// Collective. Rank 0 initialises or loads the values, everybody gets them. Returns what there is to tell.
  std::string load_values(const config::Config& input, comm::Communicator& world);
  /// Collective. The same from any Hugging Face folder that has every parameter.
  void load_folder(const std::string& folder, comm::Communicator& world);

  layers::Engine engine() { return {*products, *attention}; }
  /// Of a training or evaluation.
  MemoryPlan memory(bool trains) const;

  TaskTraits traits;
  model::BertConfig config;
  Purpose purpose;
  core::ParameterStore parameters;
  model::Stage bert;
  std::unique_ptr<ops::MatrixProduct> products;
  std::unique_ptr<ops::Attention> attention;
  core::Workspace workspace;

 private:
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace bert_hpc::app
