// Inputs of bert_hpc as tests write them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/config/toml_reader.hpp"

namespace bert_hpc::test {

/// The resolved configuration of an input's text. Throws Error(input) with every problem.
inline bert_hpc::config::Config parsed_input(const std::string& text, const std::string& name,
                                             const std::vector<std::string>& overrides,
                                             const bert_hpc::config::Config& defaults) {
  bert_hpc::config::ReadConfig read = bert_hpc::config::read_config_text(text, name, overrides, defaults);
  bert_hpc::config::throw_if_any(read.problems);
  return std::move(read.config);
}

}  // namespace bert_hpc::test
