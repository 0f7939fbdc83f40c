// The model as one Hugging Face folder, whatever the grid: rank 0 writes, and the stages of the first replica send it
// their parameters, tensor by tensor in the order of the file and in small pieces, so that no rank holds more of the
// model than before, but for one matrix at a time whose columns were shared out.
#pragma once

#include <string>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/model/hf_weights.hpp"

namespace bert_hpc::app {

/// Collective over all ranks. Every rank throws Stop where rank 0 cannot write; the others' parameters are then sent
/// for nothing. `more_files`: beside those of every model.
void export_model(ModelInstance& model, comm::Communicator& world, const std::string& folder,
                  const std::string& tokenizer_folder, const model::NamedTexts& more_files = {});

/// The same of the adapters and the head, as a folder of PEFT's (model/peft_adapter.hpp). `base_model`: the folder
/// beside whose model they were trained, as the input names it. Only for a model with adapters.
void export_adapter(ModelInstance& model, comm::Communicator& world, const std::string& folder,
                    const std::string& base_model);

}  // namespace bert_hpc::app
