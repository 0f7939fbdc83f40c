// Rules of [split] and of [filter] sample. Internal to the module.
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/prep/prep_config.hpp"

namespace bert_hpc::prep {

/// Adds the problem "[table] key text" at the location of "table.key", or "[table] text" for "table".
void complain(config::TomlReader& reader, const std::string& path, const std::string& text,
              std::vector<std::string> alternatives = {});

/// Completes the fractions and stratify by what the input gives, and checks them. Where the input names a fraction, or
/// files for a split of their own, the splits that it does not name get none of the rows of `files`, and training gets
/// the rest.
void complete_split(PrepConfig& config, config::TomlReader& reader);

}  // namespace bert_hpc::prep
