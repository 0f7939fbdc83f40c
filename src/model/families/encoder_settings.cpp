// Checks of the settings that families of encoders share, and the keys of [model] that change them.
#include "bert_hpc/model/encoder_settings.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/ops/rotary.hpp"
#include "family.hpp"

namespace bert_hpc::model {
namespace {

/// Attention drops with 8-bit thresholds: a probability that rounds to none or to all of 256 has no threshold.
void check_attention_dropout(double value, core::ProblemList& problems) {
  check_probability("attention_probs_dropout_prob", value, problems);
  if (value <= 0.0 || value >= 1.0) return;
  constexpr double least = 1.0 / 512, most = 1.0 - least;
  if (value >= least && value < most) return;
  std::ostringstream text;
  text << "attention_probs_dropout_prob is " << value << ", but attention drops in steps of 1/256: use 0, or a number "
       << "from 1/512 = 0.001953125 to below 511/512.";
  problems.add(text.str());
}

}  // namespace

void check_probability(const char* key, double value, core::ProblemList& problems) {
  if (value >= 0.0 && value < 1.0) return;
  std::ostringstream text;
  text << key << " is " << value << ", but a probability of dropout is at least 0 and below 1.";
  problems.add(text.str());
}

void check_encoder_numbers(const EncoderSettings& own, core::ProblemList& problems, const char* embedding_dropout) {
  check_probability("hidden_dropout_prob", own.hidden_dropout_prob, problems);
  check_attention_dropout(own.attention_probs_dropout_prob, problems);
  if (own.classifier_dropout) check_probability("classifier_dropout", *own.classifier_dropout, problems);
  if (own.embedding_dropout) check_probability(embedding_dropout, *own.embedding_dropout, problems);
  check_probability("qa_dropout", own.span_dropout, problems);
  if (!(own.layer_norm_eps > 0.0 && own.layer_norm_eps <= core::largest_epsilon)) {
    std::ostringstream text;
    text << "layer_norm_eps is " << own.layer_norm_eps << ", but must be above 0 and at most " << core::largest_epsilon
         << ".";
    problems.add(text.str());
  }
}

void check_rotated_heads(const ModelConfig& config, core::ProblemList& problems) {
  if (config.num_attention_heads < 1 || config.hidden_size % config.num_attention_heads != 0) return;
  constexpr std::int64_t most = 2 * ops::most_rotated_pairs;
  if (config.head_dim() % 2 == 0 && config.head_dim() <= most) return;
  problems.add("heads have " + core::counted(config.head_dim(), "column") +
               ", but rotary positions need an even number of at most " + std::to_string(most) +
               ": change num_attention_heads.");
}

void read_rotary_theta(ConfigReader& reader, const char* key, const std::string& layer_type, double& theta) {
  std::optional<double> older, newer;
  reader.number(key, older);
  std::string name = "rope_parameters";
  const nlohmann::json* rope = reader.find(name.c_str());
  if (rope != nullptr && !rope->is_null() && reader.is(name.c_str(), rope->is_object(), "an object", *rope)) {
    if (!layer_type.empty()) {
      const auto found = rope->find(layer_type);
      name += '.' + layer_type;
      rope =
          found != rope->end() && reader.is(name.c_str(), found->is_object(), "an object", *found) ? &*found : nullptr;
    }
    if (rope != nullptr) {
      const auto type = rope->find("rope_type");
      ConfigReader(*rope, reader.problems()).number("rope_theta", newer);
      if (type != rope->end() && *type != "default") {
        reader.problems().add(name + ".rope_type is " + core::printable(type->dump()) +
                              ", but only \"default\" is built in: scaled angles would give other results.");
      }
    }
  }
  if (older && newer && *older != *newer) {
    std::ostringstream text;
    text << key << " is " << *older << " and " << name << ".rope_theta is " << *newer
         << ", but they are two names of one number: remove the wrong one.";
    reader.problems().add(text.str());
  }
  theta = newer.value_or(older.value_or(theta));
}

void read_encoder_keys(ConfigReader& reader, ModelConfig& config, EncoderSettings& own) {
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.integer("num_attention_heads", config.num_attention_heads);
  reader.integer("intermediate_size", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.integer("type_vocab_size", config.type_vocab_size);
  reader.number("hidden_dropout_prob", own.hidden_dropout_prob);
  reader.number("attention_probs_dropout_prob", own.attention_probs_dropout_prob);
  reader.number("layer_norm_eps", own.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  reader.text("hidden_act", own.hidden_act);
  if (own.hidden_act == "gelu_python") own.hidden_act = "gelu";  // the same function under its older name
}

void write_encoder_keys(const ModelConfig& config, const EncoderSettings& own, nlohmann::json& root) {
  root["attention_probs_dropout_prob"] = own.attention_probs_dropout_prob;
  root["hidden_act"] = own.hidden_act;
  root["hidden_dropout_prob"] = own.hidden_dropout_prob;
  root["hidden_size"] = config.hidden_size;
  root["initializer_range"] = config.initializer_range;
  root["intermediate_size"] = config.intermediate_size;
  root["layer_norm_eps"] = own.layer_norm_eps;
  root["max_position_embeddings"] = config.max_position_embeddings;
  root["num_attention_heads"] = config.num_attention_heads;
  root["num_hidden_layers"] = config.num_hidden_layers;
  root["type_vocab_size"] = config.type_vocab_size;
  root["vocab_size"] = config.vocab_size;
}

void write_encoder_keys(const ModelConfig& config, nlohmann::json& root) {
  const EncoderSettings& own = encoder_settings(config);
  write_encoder_keys(config, own, root);
  root["classifier_dropout"] =
      own.classifier_dropout ? nlohmann::json(*own.classifier_dropout) : nlohmann::json(nullptr);
}

void check_encoder(const ModelConfig& config, core::ProblemList& problems) {
  check_encoder(config, encoder_settings(config), problems);
}

void check_encoder(const ModelConfig& config, const EncoderSettings& own, core::ProblemList& problems) {
  check_encoder_numbers(own, problems);
  if (config.pad_token_id == no_token) problems.add("pad_token_id is -1, but token ids go from 0 on.");
  if (own.hidden_act != "gelu") {
    problems.add("hidden_act is " + core::in_quotes(own.hidden_act) +
                 ", but only \"gelu\" (exact, with the error function) is built in.");
  }
}

std::span<const OwnNumber> encoder_numbers() {
  static constexpr std::array numbers = {
      OwnNumber{.key = "hidden_dropout_prob",
                .limits = is_probability,
                .get = [](const ModelConfig& config) -> std::optional<double> {
                  return encoder_settings(config).hidden_dropout_prob;
                },
                .set =
                    [](ModelConfig& config, double value) {
                      encoder_settings(config).hidden_dropout_prob = value;
                      encoder_settings(config).embedding_dropout.reset();
                    }},
      own_number<EncoderSettings, &EncoderSettings::attention_probs_dropout_prob>("attention_probs_dropout_prob",
                                                                                  is_probability),
      own_number<EncoderSettings, &EncoderSettings::layer_norm_eps>("layer_norm_eps", is_epsilon),
      OwnNumber{.key = "classifier_dropout",
                .limits = is_probability,
                .get = [](const ModelConfig& config) { return encoder_settings(config).classifier_dropout; },
                .set =
                    [](ModelConfig& config, double value) {
                      encoder_settings(config).classifier_dropout = value;
                      encoder_settings(config).span_dropout = value;
                    }},
  };
  return numbers;
}

}  // namespace bert_hpc::model
