#include "app/engine/run_memory.hpp"

#include <algorithm>

#include "app/engine/embedding_input.hpp"
#include "app/engine/evaluator.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/embedding.hpp"

namespace bert_hpc::app {
namespace {

/// Most bytes that the evaluator keeps of a sample until its window is done.
std::int64_t result_bytes(const data::ShardReader& reader, const ModelInstance& model) {
  constexpr std::int64_t best_spans = 512;  // of [task] n_best = 20 or some more
  switch (model.objective.task->labels) {
    case tasks::Labels::spans:
      return best_spans;
    case tasks::Labels::none:
      return 2 * std::int64_t{sizeof(float)};  // of tokens that are predicted: their number and their loss
    case tasks::Labels::words:
      return 2 * reader.info().max_length * std::int64_t{sizeof(float)};  // class and probability of each word
    default:
      return model.outputs() * std::int64_t{sizeof(float)};
  }
}

/// Bytes for the embeddings that an evaluation compares: those of one window of samples, and on rank 0 those of a block
/// of neighbours in the data.
std::int64_t embedding_bytes(const DataSets& sets, const ModelInstance& model) {
  if (!model.objective.task->embeds_texts) return 0;
  constexpr std::int64_t growth = 2;                             // of arrays
  constexpr std::int64_t block = 2 * objectives::ranking_block;  // pairs
  const bool is_root = model.coordinates == comm::GridCoordinates{};
  std::int64_t most = 0;
  for (const data::ShardReader* reader : {sets.validation.get(), sets.test.get()}) {
    if (reader == nullptr) continue;
    const std::int64_t window =
        std::min(reader->samples(), data::evaluation_window * (is_root ? model.grid.data : std::int64_t{1}));
    most = std::max(most, window + (is_root ? std::min(reader->samples(), block) : 0));
  }
  return growth * most * model.outputs() * std::int64_t{sizeof(float)};
}

/// Bytes for the data set whose predictions are written: results of one window of samples (on rank 0 those of all
/// replicas and the blocks of its files), and the scores that metrics keep of each question or query.
std::int64_t prediction_bytes(const DataSets& sets, const ModelInstance& model) {
  const tasks::Task& task = *model.objective.task;
  const bool of_validation = !sets.train || task.predicts_validation;
  const data::ShardReader* const reader = sets.test ? sets.test.get() : of_validation ? sets.validation.get() : nullptr;
  if (reader == nullptr || !task.predicts_samples) return 0;
  constexpr std::int64_t files = std::int64_t{4} << 20;  // 16 blocks of 256 KiB: columns before and in the files
  constexpr std::int64_t scores = 32;
  constexpr std::int64_t growth = 2;  // of arrays
  const bool is_root = model.coordinates == comm::GridCoordinates{};
  const std::int64_t window =
      std::min(reader->samples(), data::evaluation_window * (is_root ? model.grid.data : std::int64_t{1}));
  const std::int64_t results = window * (result_bytes(*reader, model) + std::int64_t{sizeof(std::int64_t)});
  if (!is_root) return growth * results;
  const bool answers = task.has_answers();
  const std::int64_t scored = answers ? reader->samples() : std::ssize(reader->groups());
  return growth * (results + scores * scored) + files;
}

}  // namespace

MemoryPlan model_memory(const ModelInstance& model, bool trains) {
  const std::int64_t arena = model.parameters.arena_size() * static_cast<std::int64_t>(sizeof(float));
  MemoryPlan plan;
  if (!trains) plan.emplace_back("parameters", arena);  // with gradients and states they are in the shard plan
  std::int64_t dropout_bytes = 0;
  for (const model::Stage& stage : model.stages) dropout_bytes += stage.dropout_bytes();
  plan.emplace_back("activations", model.workspace.bytes() - dropout_bytes);
  if (dropout_bytes > 0) plan.emplace_back("dropout's decisions in attention", dropout_bytes);
  if (model.grid.tensor > 1) {
    plan.emplace_back("token rows shared by tensor ranks",
                      layers::TensorExchange::bytes(model.exchanged_rows(), model.plan.most_exchanged_columns(),
                                                    model.grid.tensor, model.storage));
  }
  if (model.grid.pipeline > 1) {
    plan.emplace_back("buffers for messages between stages",
                      comm::message_room_bytes(model.message_bytes(), model.grid.pipeline));
  }
  model.kernels.add_memory(plan);
  return plan;
}

void add_runtime_overhead(const DataSets& sets, const ModelInstance& model, MemoryPlan& memory) {
  // Measured: 20 MiB of pages of the program and its libraries (HDF5, MPI, OpenMP) that the run is the first to use,
  // HDF5's chunk caches of 1 MiB a dataset, MPI's shared memory and buffers of 4 MiB or more; rounded up.
  constexpr std::int64_t libraries = std::int64_t{40} << 20;
  std::int64_t data = 0;
  for (const data::ShardReader* reader : {sets.train.get(), sets.validation.get(), sets.test.get()}) {
    if (reader != nullptr) data += reader->memory_bytes();
  }
  data += prediction_bytes(sets, model) + embedding_bytes(sets, model);
  constexpr std::int64_t copies = 6;  // of the labels' names: of model, data sets, metrics and predictions
  for (const std::string& name : model.config.label_names) {
    data += copies * static_cast<std::int64_t>(sizeof(std::string) + name.size());
  }
  for (const data::ShardReader* reader : {sets.validation.get(), sets.test.get()}) {
    if (reader != nullptr) data += metrics::bytes_of(model.objective.task->metrics, evaluated_set(model, *reader));
  }
  data += sets.validation_rows.memory_bytes() + sets.test_rows.memory_bytes();
  memory.emplace_back("data sets", data);
  const bool shares = core::host_sees_device_memory();
  if (const std::int64_t rows = feature_bytes(sets); rows > 0 && (shares || model.coordinates.pipeline == 0)) {
    memory.emplace_back("embeddings", shares ? rows / sets.ranks_of_node : rows);
  }
  memory.emplace_back("libraries", libraries);
}

}  // namespace bert_hpc::app
