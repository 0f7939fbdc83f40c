// The commented inputs that --example prints. The build generates the definition from input/example_*.toml
// (src/cmake/write_examples.cmake).
#pragma once

#include <string_view>

namespace bert_hpc::config {

/// input/example_bert_hpc.toml, or input/example_bert_hpc_prep.toml for program "bert_hpc_prep".
std::string_view example_input(std::string_view program);

}  // namespace bert_hpc::config
