#include "app/engine/embedding_model.hpp"

#include <string>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/hf_config.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

void take_embeddings(const config::Config& input, const data::ShardInfo& shards, model::ModelConfig& config) {
  const std::string folder = "the model in '" + input.model.pretrained.value_or("") + "' ";
  if (shards.columns == 0) {
    if (config.embedded_by.empty()) return;
    throw Error(ExitCode::data, folder + "reads embeddings (" + core::printable(config.embedded_by) +
                                    "), but the shards hold token ids: embed them with run.mode = \"embed\" first.");
  }
  const std::string columns = std::to_string(shards.columns);
  if (input.embeds() || model::has_attention(config.family)) {
    throw Error(ExitCode::data, "the shards hold embeddings of " + columns +
                                    " columns, which only a training of [model] family = \"bilstm\" and its models "
                                    "read: use text shards, or that family.");
  }
  if (input.model.pretrained && config.embedded_by != shards.embedded) {
    throw Error(ExitCode::data,
                folder +
                    (config.embedded_by.empty() ? std::string("reads token ids")
                                                : "reads embeddings that are " + core::printable(config.embedded_by)) +
                    ", but the shards hold embeddings that are " + core::printable(shards.embedded) + ".");
  }
  const bool is_stated = input.model.pretrained || input.model.embedding_size;
  if (is_stated && config.embedding_size != shards.columns) {
    throw Error(ExitCode::data, "the embeddings have " + columns + " columns, but [model] embedding_size is " +
                                    std::to_string(config.embedding_size) + ": leave it out.");
  }
  config.embedding_size = shards.columns;
  config.embedded_by = shards.embedded;
}

}  // namespace bert_hpc::app
