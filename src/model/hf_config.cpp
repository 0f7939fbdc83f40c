#include "bert_hpc/model/hf_config.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/model_limits.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "families/family.hpp"
#include "hf_checkpoint.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using core::ProblemList;
using nlohmann::json;

constexpr std::int64_t max_config_bytes = std::int64_t{16} << 20;  // bytes; label names are all that can make it long

// {"0": "negative", "1": "positive"}: every number from 0 on once, in any order.
void read_labels(const json& id2label, ModelConfig& config, ProblemList& problems) {
  std::vector<std::string> names(id2label.size());
  for (const auto& [key, name] : id2label.items()) {
    const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos &&
                        (key == "0" || key[0] != '0');
    const std::size_t id = digits ? std::stoul(key) : names.size();
    if (id >= names.size() || !name.is_string()) {
      problems.add("id2label has the entry " + core::in_quotes(key) + ", but with " + std::to_string(names.size()) +
                   " labels its keys must be \"0\" to \"" + std::to_string(names.size() - 1) +
                   "\" and its values strings.");
      return;
    }
    names[id] = name.get<std::string>();
  }
  config.label_names = std::move(names);
}

/// Takes the names of label2id, {"negative": 0, "positive": 1}, if they have every number from 0 on once.
void read_numbers(const json& label2id, ModelConfig& config) {
  std::vector<std::string> names(label2id.size());
  std::vector<bool> has_name(names.size(), false);
  for (const auto& [name, number] : label2id.items()) {
    if (!number.is_number_unsigned() || number.get<std::uint64_t>() >= names.size()) return;
    const auto id = number.get<std::size_t>();
    names[id] = name;
    has_name[id] = true;
  }
  if (!names.empty() && std::find(has_name.begin(), has_name.end(), false) == has_name.end()) {
    config.label_names = std::move(names);
  }
}

void read_label_names(ConfigReader& reader, ModelConfig& config, ProblemList& problems) {
  const json* id2label = reader.find("id2label");
  std::optional<std::int64_t> count;
  reader.integer("num_labels", count);
  if (id2label != nullptr && !id2label->is_null()) {
    if (!reader.is("id2label", id2label->is_object(), "an object", *id2label)) return;
    read_labels(*id2label, config, problems);
    if (count && *count != static_cast<std::int64_t>(id2label->size())) {
      problems.add("num_labels is " + std::to_string(*count) + ", but id2label names " +
                   std::to_string(id2label->size()) + " labels; they must agree.");
    }
  } else if (count) {
    if (*count < 1 || *count > (1 << 20)) {
      problems.add("num_labels is " + std::to_string(*count) + ", but must be between 1 and 1048576.");
    } else {
      config.label_names = default_label_names(*count);
    }
  } else if (const json* label2id = reader.find("label2id"); label2id != nullptr && label2id->is_object()) {
    read_numbers(*label2id, config);
  }
}

void read_prediction_range(ConfigReader& reader, ModelConfig& config, ProblemList& problems) {
  const json* const range = reader.find("prediction_range");
  if (range == nullptr || range->is_null()) return;
  const bool is_pair = range->is_array() && range->size() == 2 && (*range)[0].is_number() && (*range)[1].is_number();
  if (is_pair && (*range)[0].get<double>() < (*range)[1].get<double>()) {
    config.prediction_range = {(*range)[0].get<double>(), (*range)[1].get<double>()};
  } else {
    problems.add("prediction_range must be two numbers, the smaller one first.");
  }
}

/// Task suffix of the first class in `architectures`: "ForMaskedLM" for "BertForMaskedLM"; "" for other families'
/// classes.
std::string head_class_of(const json& root, const Family& family) {
  const auto classes = root.find("architectures");
  if (classes == root.end() || !classes->is_array() || classes->empty() || !classes->front().is_string()) return "";
  const std::string name = classes->front().get<std::string>();
  return name.starts_with(family.class_prefix) ? name.substr(family.class_prefix.size()) : "";
}

/// The family of a file's model_type; null, and a problem, if it is not built in.
const Family* read_model_type(ConfigReader& reader, ProblemList& problems) {
  std::string type = "bert";  // files from before 2020 do not say
  reader.text("model_type", type);
  for (const Family* family : families()) {
    if (family->model_type == type) return family;
  }
  problems.add("model_type is " + core::in_quotes(type) + "; supported are " + family_list() + ".");
  return nullptr;
}

}  // namespace

ModelConfig parse_hf_config(const std::string& text, const std::string& what) {
  const json root = core::parse_strict_json(text, what);
  ModelConfig config;
  ProblemList problems;
  ConfigReader reader(root, problems);
  const std::string heading = what + ": this configuration is not supported:";
  const Family* const family = read_model_type(reader, problems);
  // Only that family knows the other keys.
  if (family == nullptr) problems.throw_if_any(ExitCode::files, heading);
  config.family = family->model_type;
  family->read(reader, config);
  reader.boolean("tie_word_embeddings", config.ties_word_embeddings);
  reader.text("problem_type", config.problem_type);
  config.head_class = head_class_of(root, *family);
  read_prediction_range(reader, config, problems);
  std::optional<std::int64_t> pad_token_id;
  reader.integer("pad_token_id", pad_token_id);
  config.pad_token_id = pad_token_id.value_or(config.pad_token_id);
  reader.integer("bos_token_id", config.bos_token_id);
  reader.integer("eos_token_id", config.eos_token_id);
  reader.integer("cls_token_id", config.cls_token_id);
  reader.integer("sep_token_id", config.sep_token_id);
  reader.integer("mask_token_id", config.mask_token_id);
  read_label_names(reader, config, problems);
  check_model(config, problems);
  problems.throw_if_any(ExitCode::files, heading);
  return config;
}

void check_model(const ModelConfig& config, ProblemList& problems) {
  const Family& family = family_of(config.family);
  check_sizes(config, problems);
  if (config.type_vocab_size != 0 && !family.token_types) {
    problems.add("type_vocab_size is " + std::to_string(config.type_vocab_size) + ", but " + family.title +
                 " has no token types: leave it out.");
  } else if (config.type_vocab_size < 1 && family.token_types) {
    problems.add("type_vocab_size is " + std::to_string(config.type_vocab_size) + ", but must be between 1 and " +
                 std::to_string(core::largest_size) + ".");
  }
  if (family.attention && !family.projects_embeddings && config.embedding_size != 0 &&
      config.embedding_size != config.hidden_size) {
    problems.add("embedding_size is " + std::to_string(config.embedding_size) + ", but " + family.title +
                 " has embeddings of its hidden_size: leave it out.");
  }
  for (const OwnWord& word : family.words) {
    const std::vector<std::string> allowed(word.allowed.begin(), word.allowed.end());
    if (std::find(allowed.begin(), allowed.end(), word.get(config)) != allowed.end()) continue;
    problems.add(std::string(word.file_key) + " is " + core::in_quotes(word.get(config)) + ", but must be " +
                 core::listed(allowed, "or") + ".");
  }
  family.check(config, problems);
}

bool has_attention(const std::string& family) {
  return family_of(family).attention;
}

std::vector<std::pair<std::string, std::string>> own_words(const ModelConfig& config) {
  std::vector<std::pair<std::string, std::string>> words;
  for (const OwnWord& word : family_of(config.family).words) words.emplace_back(word.key, word.get(config));
  return words;
}

bool set_own_word(ModelConfig& config, const std::string& key, const std::string& value) {
  for (const OwnWord& word : family_of(config.family).words) {
    if (word.key != key) continue;
    word.set(config, value);
    return true;
  }
  return false;
}

std::vector<std::pair<std::string, double>> own_numbers(const ModelConfig& config) {
  std::vector<std::pair<std::string, double>> numbers;
  for (const OwnNumber& number : family_of(config.family).numbers()) {
    if (const std::optional<double> value = number.get(config)) numbers.emplace_back(number.key, *value);
  }
  return numbers;
}

bool set_own_number(ModelConfig& config, const std::string& key, double value) {
  for (const OwnNumber& number : family_of(config.family).numbers()) {
    if (number.key != key) continue;
    number.set(config, value);
    return true;
  }
  return false;
}

ModelConfig default_config(const std::string& family) {
  const Family& known = family_of(family);
  json root = json::parse(known.of_scratch);
  root["model_type"] = known.model_type;
  return parse_hf_config(core::json_text(root), "the defaults of " + family);
}

ModelConfig read_hf_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) fail_without_folder(folder);
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ExitCode::files, path.string() +
                                     ": missing. A folder of a Hugging Face model holds config.json, "
                                     "model.safetensors and the tokenizer's files.");
  }
  return parse_hf_config(core::read_text_file(path.string(), max_config_bytes), path.string());
}

std::string hf_config_text(const ModelConfig& config, const layers::HeadKind& head) {
  const Family& family = family_of(config.family);
  json root = {
      {"architectures", json::array({family.class_prefix + head.class_suffix})},
      {"dtype", "float32"},
      {"model_type", family.model_type},
      {"tie_word_embeddings", config.ties_word_embeddings},
  };
  family.write(config, root);
  const auto optional_id = [&root](const char* key, std::optional<std::int64_t> id) {
    if (id) root[key] = *id;
  };
  if (config.pad_token_id != no_token) root["pad_token_id"] = config.pad_token_id;
  optional_id("bos_token_id", config.bos_token_id);
  optional_id("eos_token_id", config.eos_token_id);
  optional_id("cls_token_id", config.cls_token_id);
  optional_id("sep_token_id", config.sep_token_id);
  optional_id("mask_token_id", config.mask_token_id);
  if (!head.predicts_tokens) {
    if (!config.problem_type.empty()) root["problem_type"] = config.problem_type;
    if (config.prediction_range) root["prediction_range"] = *config.prediction_range;
    json id2label = json::object(), label2id = json::object();
    for (std::size_t i = 0; i < config.label_names.size(); ++i) {
      id2label[std::to_string(i)] = config.label_names[i];
      label2id[config.label_names[i]] = i;
    }
    root["id2label"] = std::move(id2label);
    root["label2id"] = std::move(label2id);
  }
  return core::json_text(root, 2) + "\n";
}

}  // namespace bert_hpc::model
