// The two halves of writing a safetensors file, for callers that publish several files together.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "aside_file.hpp"
#include "bert_hpc/model/safetensors.hpp"

namespace bert_hpc::model {

/// Writes header and data into `file`, which the caller finishes and publishes.
void write_safetensors_into(AsideFile& file, std::vector<TensorToWrite> tensors,
                            const std::map<std::string, std::string>& metadata);

}  // namespace bert_hpc::model
