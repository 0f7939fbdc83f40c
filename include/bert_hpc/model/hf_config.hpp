// Reading and writing Hugging Face's config.json. What the file says is checked completely (types, ranges, features of
// BERT that are not built in), and all that is wrong is reported in one message.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "bert_hpc/core/number_setting.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::model {

/// FOLDER/config.json. Keys it lacks keep BERT-base's values, as in Transformers; keys unknown here are ignored.
/// Throws Error(files) for a file that is missing, no JSON, of another model type, or with impossible values.
ModelConfig read_hf_config(const std::filesystem::path& folder);

/// The same from the file's text; `what` names it in messages.
ModelConfig parse_hf_config(const std::string& text, const std::string& what);

/// model_type of every family, as in [model] family.
std::vector<std::string> family_names();
/// Every family with its own keys of [model].
std::vector<core::KnownFamily> known_families();

/// What a config.json of this family means that states nothing. Throws Error(input) if there is no such family.
ModelConfig default_config(const std::string& family);

/// Adds one sentence to `problems` for each value that cannot be (check_sizes() in model_config.hpp), the family's
/// own settings included: probabilities outside [0, 1), an activation that is not built in, ….
void check_model(const ModelConfig& config, core::ProblemList& problems);

/// Numbers that the family alone reads and that have a value, by their keys in [model].
std::vector<std::pair<std::string, double>> own_numbers(const ModelConfig& config);
/// Sets one of them; false if the family has no such number.
bool set_own_number(ModelConfig& config, const std::string& key, double value);

/// Words that the family alone reads, by their keys in [model].
std::vector<std::pair<std::string, std::string>> own_words(const ModelConfig& config);
/// Sets one of them; false if the family has no such word.
bool set_own_word(ModelConfig& config, const std::string& key, const std::string& value);

/// Whether a family has heads, a feed-forward layer and positions.
bool has_attention(const std::string& family);

/// Text of a config.json that AutoModelFor….from_pretrained reads as a model with this head. The same bytes for the
/// same config.
std::string hf_config_text(const ModelConfig& config, const layers::HeadKind& head);

}  // namespace bert_hpc::model
