// Writes safetensors files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "bert_hpc/model/safetensors.hpp"
#include "temporary_file.hpp"

namespace bert_hpc::model {

/// Writes header and data into `file`, which the caller finishes and publishes. `tensors` are written in the order of
/// their names: the same bytes for the same tensors, whatever their order here.
void write_safetensors_into(TemporaryFile& file, std::vector<TensorToWrite> tensors,
                            const std::map<std::string, std::string>& metadata);

}  // namespace bert_hpc::model
