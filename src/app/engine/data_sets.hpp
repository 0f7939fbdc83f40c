// The data sets that a run reads, and how they become batches.
#pragma once

#include <memory>
#include <mutex>

#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/batch_loader.hpp"
#include "bert_hpc/data/source_rows.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/tasks/window_pooling.hpp"

namespace bert_hpc::app {

struct DataSets {
  std::mutex hdf5;                                             ///< held during every HDF5 call once loaders run
  std::unique_ptr<data::ShardReader> train, validation, test;  ///< null if the mode or the input has none
  /// Rows of text whose sequences are windows; none unless the task predicts for each row.
  data::SourceRows validation_rows, test_rows;
  std::shared_ptr<const layers::FeatureTable> features;  ///< rows of data sets of embeddings; null for token ids
  int ranks_of_node = 1;                                 ///< that share these rows

  data::ShardReader& any() const { return train ? *train : validation ? *validation : *test; }
};

/// Most sequences of a step of mode "embed".
inline constexpr std::int64_t most_embedded_at_once = 4096;

/// Memory for tokens.
struct TokenBudget {
  std::int64_t node = std::int64_t{2} << 30;  ///< bytes that the ranks of a node share
  int ranks = 1;                              ///< of the node
  bool is_first_of_node = true;               ///< this rank
};
/// As [data] cache says, where a node has so much memory (0: unknown) and so many ranks.
TokenBudget token_budget(const config::Data& data, std::int64_t node_memory, int ranks);

/// Collective. Opens and checks what the mode reads, with `replicas`; exit code 3 with every problem of a data set.
/// `reads`: tokens will be read.
void open_data(DataSets& sets, const config::Config& input, const model::ModelConfig& stated, int replicas,
               const TokenBudget& budget, comm::Communicator& world, bool reads);

/// Throws Error(data) if the shards were not made with the tokenizer that lies beside this model.
void require_tokenizer(const data::ShardReader& reader, const std::string& model_folder);

/// What is not read yet is read ahead from now on, by a thread of each rank. Call it when the run is ready: it competes
/// for processors with what comes before the first step, which needs little of the data.
void start_reading(const DataSets& sets);

/// What a training step draws as one: a sequence, or all candidates of a query (data/sample_units.hpp).
struct DrawnUnit {
  std::int64_t most_tokens = 0;  ///< computed ones
  double mean_sequences = 1;
  double epoch_tokens = 0;  ///< of all units, without padding
  data::PaddingOptions padding{};
};
/// Throws Error(data) as SampleUnits and padding_options() do.
DrawnUnit drawn_unit(const config::Config& input, const model::ModelConfig& model, const data::ShardReader& reader);

/// How the training data become batches for this replica. Where the input leaves the size of micro-batches open, there
/// are `micro_batches` of them for each replica, or with 0 as few as `usual` tokens of each allow
/// (app/plan/micro_batch_size.hpp). Pure.
data::BatchLoaderOptions training_batches(const config::Config& input, const model::ModelConfig& model,
                                          const DrawnUnit& unit, int replica, const comm::GridShape& grid,
                                          std::int64_t micro_batches, std::int64_t usual);

/// Most tokens of an evaluation micro-batch; `usual` where the input does not say. max_length: with padding.
std::int64_t evaluation_micro_tokens(const config::Config& input, std::int64_t max_length, std::int64_t usual);

/// What the model's memory must hold for these micro-batches.
layers::BatchBounds model_bounds(const data::BatchLoader& loader);

}  // namespace bert_hpc::app
