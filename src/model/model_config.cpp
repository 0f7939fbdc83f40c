#include "bert_hpc/model/model_config.hpp"

#include <sstream>

#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/model_limits.hpp"

namespace bert_hpc::model {
namespace {

using core::largest_size;
using core::largest_vocabulary;
using core::max_layers;

void check_size(const char* key, std::int64_t value, std::int64_t largest, core::ProblemList& problems) {
  if (value >= 1 && value <= largest) return;
  problems.add(std::string(key) + " is " + std::to_string(value) + ", but must be between 1 and " +
               std::to_string(largest) + ".");
}

void check_positive(const char* key, double value, double largest, core::ProblemList& problems) {
  if (value > 0.0 && value <= largest) return;
  std::ostringstream text;
  text << key << " is " << value << ", but must be above 0 and at most " << largest << ".";
  problems.add(text.str());
}

void check_token(const char* key, std::optional<std::int64_t> id, std::int64_t vocab_size,
                 core::ProblemList& problems) {
  if (!id || (*id >= 0 && *id < vocab_size)) return;
  problems.add(std::string(key) + " is " + std::to_string(*id) +
               ", but token ids go from 0 to vocab_size - 1 = " + std::to_string(vocab_size - 1) + ".");
}

}  // namespace

void check_sizes(const ModelConfig& config, core::ProblemList& problems) {
  check_size("vocab_size", config.vocab_size, largest_vocabulary, problems);
  check_size("hidden_size", config.hidden_size, largest_size, problems);
  if (config.embedding_size != 0) check_size("embedding_size", config.embedding_size, largest_size, problems);
  check_size("num_hidden_layers", config.num_hidden_layers, max_layers, problems);
  check_size("num_attention_heads", config.num_attention_heads, largest_size, problems);
  check_size("intermediate_size", config.intermediate_size, largest_size, problems);
  check_size("max_position_embeddings", config.max_position_embeddings, largest_size, problems);
  if (config.type_vocab_size != 0) check_size("type_vocab_size", config.type_vocab_size, largest_size, problems);
  check_size("number of labels", config.num_labels(), largest_size, problems);
  if (config.num_attention_heads >= 1 && config.hidden_size >= 1 &&
      config.hidden_size % config.num_attention_heads != 0) {
    problems.add("hidden_size is " + std::to_string(config.hidden_size) + ", which is no multiple of " +
                 "num_attention_heads = " + std::to_string(config.num_attention_heads) +
                 ": every head must get the same number of columns.");
  }
  check_positive("initializer_range", config.initializer_range, core::largest_initial_range, problems);
  if (!config.problem_type.empty() && config.problem_type != "regression" &&
      config.problem_type != "single_label_classification" && config.problem_type != "multi_label_classification") {
    problems.add("problem_type is " + core::in_quotes(config.problem_type) +
                 ", but must be \"regression\", \"single_label_classification\" or \"multi_label_classification\".");
  }
  if (config.vocab_size >= 1) {
    if (config.pad_token_id != no_token) check_token("pad_token_id", config.pad_token_id, config.vocab_size, problems);
    check_token("bos_token_id", config.bos_token_id, config.vocab_size, problems);
    check_token("eos_token_id", config.eos_token_id, config.vocab_size, problems);
    check_token("cls_token_id", config.cls_token_id, config.vocab_size, problems);
    check_token("sep_token_id", config.sep_token_id, config.vocab_size, problems);
    check_token("mask_token_id", config.mask_token_id, config.vocab_size, problems);
  }
}

std::vector<std::string> default_label_names(std::int64_t count) {
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) names.push_back("LABEL_" + std::to_string(i));
  return names;
}

}  // namespace bert_hpc::model
