// The input with all its defaults, as RUN/input.toml and checkpoints hold it.
#pragma once

#include "app/run/run_directory.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

/// Writes the values of the stated model into [model], where the input leaves them to defaults or to `pretrained`;
/// vocab_size only from there, as it comes with the shards otherwise. Then the input's text, and its defaults'. Throws
/// Error.
ResolvedInput resolved_input(config::Config& input, const model::ModelConfig& stated);
/// The same of mode "search", which has no model.
ResolvedInput resolved_search(const config::Config& input);

}  // namespace bert_hpc::app
