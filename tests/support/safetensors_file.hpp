// A safetensors file from tensors in memory.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "../src/model/safetensors_writer.hpp"

namespace bert_hpc::test {

/// Written under a temporary name, flushed, renamed. Throws Error(files).
inline void write_safetensors(const std::filesystem::path& path, std::vector<bert_hpc::model::TensorToWrite> tensors,
                              const std::map<std::string, std::string>& metadata) {
  bert_hpc::model::TemporaryFile file(path);
  bert_hpc::model::write_safetensors_into(file, std::move(tensors), metadata);
  file.finish();
  file.publish();
}

}  // namespace bert_hpc::test
