// From TOML to the input of bert_hpc_prep. Everything that can be checked without opening the text is checked here, and
// all problems are reported at once.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/prep/prep_config.hpp"

namespace bert_hpc::prep {

/// An input as far as it can be read, and what is wrong with it.
struct ReadPrepConfig {
  PrepConfig config;
  core::ProblemList problems;
};
/// Throws Error(input) if the file cannot be read, or is for another program.
ReadPrepConfig read_with_problems(const std::string& path, const std::vector<std::string>& overrides);

/// Reads `path` and applies `overrides` ("table.key=VALUE"). Throws Error(input) with all problems.
PrepConfig read_prep_config(const std::string& path, const std::vector<std::string>& overrides);
/// The same from text; `name` is what messages call it.
PrepConfig parse_prep_config(std::string_view text, const std::string& name, const std::vector<std::string>& overrides);

}  // namespace bert_hpc::prep
