// The parameters' first values: initialised, or from a Hugging Face folder.
#pragma once

#include <string>

#include "bert_hpc/app/engine/model_instance.hpp"
#include "bert_hpc/config/config.hpp"

namespace bert_hpc::app {

/// For --validate: throws Error where model.pretrained cannot give the model its values. `trains`: the head may be
/// missing there.
void check_pretrained(const ModelInstance& model, const config::Config& input, bool trains);

/// Collective over all ranks, after connect(). The ranks of the first replica initialise or load their parameters, the
/// other replicas receive them. Returns on rank 0 the lines for the log.
std::string load_values(ModelInstance& model, const config::Config& input);

/// Collective. Loads the parameters from a Hugging Face folder that has all of them.
void load_folder(ModelInstance& model, const std::string& folder);

}  // namespace bert_hpc::app
