// The rules between the keys of bert_hpc_prep's input, without those of [split] (split_rules.hpp).
#pragma once

#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/prep/prep_config.hpp"

namespace bert_hpc::prep {

/// Adds every violated rule to the reader's problems.
void check_input(const PrepConfig& c, config::TomlReader& reader);

/// Tokens that a sequence has room for at least: its special tokens and one of each text, of a text that is cut into
/// windows a window.
std::int64_t least_tokens(const PrepConfig& c, const tokenize::SequenceTemplate& sequence);

}  // namespace bert_hpc::prep
