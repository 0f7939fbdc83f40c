#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"

#include <limits>

#include "strict_json.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using core::ProblemList;
using nlohmann::json;

constexpr std::int64_t longest_config = std::int64_t{16} << 20;  // bytes; label names are all that can make it long

// Takes typed values out of the object; a key that is absent leaves the default, a value of a wrong type is a problem.
class Reader {
 public:
  Reader(const json& root, ProblemList& problems) : root_(root), problems_(problems) {}

  void integer(const char* key, std::int64_t& value) {
    if (const json* found = find(key); found != nullptr && is_integer(key, *found)) value = found->get<std::int64_t>();
  }
  void integer(const char* key, std::optional<std::int64_t>& value) {
    const json* found = find(key);
    if (found != nullptr && !found->is_null() && is_integer(key, *found)) value = found->get<std::int64_t>();
  }
  void number(const char* key, double& value) {
    if (const json* found = find(key); found != nullptr && is(key, found->is_number(), "a number", *found)) {
      value = found->get<double>();
    }
  }
  void number(const char* key, std::optional<double>& value) {
    const json* found = find(key);
    if (found != nullptr && !found->is_null() && is(key, found->is_number(), "a number or null", *found)) {
      value = found->get<double>();
    }
  }
  void text(const char* key, std::string& value) {
    const json* found = find(key);
    if (found != nullptr && !found->is_null() && is(key, found->is_string(), "a string", *found)) {
      value = found->get<std::string>();
    }
  }
  /// A feature that must be off (or absent) because it is not built in.
  void must_be(const char* key, const json& only, const char* reason) {
    const json* found = find(key);
    if (found == nullptr || found->is_null() || *found == only) return;
    const std::string found_text =
        found->is_string() ? found->get<std::string>() : found->dump(-1, ' ', true, json::error_handler_t::replace);
    problems_.add(std::string(key) + " is " +
                  (found->is_string() ? in_quotes(found_text) : core::printable(found_text)) + ", but only " +
                  only.dump() + " is built in: " + reason);
  }
  const json* find(const char* key) const {
    const auto found = root_.find(key);
    return found == root_.end() ? nullptr : &*found;
  }
  bool is(const char* key, bool holds, const char* wanted, const json& value) {
    if (!holds) problems_.add(std::string(key) + " must be " + wanted + ", but is " + value.type_name() + ".");
    return holds;
  }

 private:
  bool is_integer(const char* key, const json& value) {
    const bool fits = value.is_number_integer() &&
                      !(value.is_number_unsigned() &&
                        value.get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()});
    return is(key, fits, "a whole number", value);
  }

  const json& root_;
  ProblemList& problems_;
};

// {"0": "negative", "1": "positive"}: every number from 0 on once, in any order.
void read_labels(const json& id2label, ModelConfig& config, ProblemList& problems) {
  std::vector<std::string> names(id2label.size());
  for (const auto& [key, name] : id2label.items()) {
    const bool digits = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos &&
                        (key == "0" || key[0] != '0');
    const std::size_t id = digits ? std::stoul(key) : names.size();
    if (id >= names.size() || !name.is_string()) {
      problems.add("id2label has the entry " + in_quotes(key) + ", but with " + std::to_string(names.size()) +
                   " labels its keys must be \"0\" to \"" + std::to_string(names.size() - 1) +
                   "\" and its values strings.");
      return;
    }
    names[id] = name.get<std::string>();
  }
  config.label_names = std::move(names);
}

void read_label_names(Reader& reader, ModelConfig& config, ProblemList& problems) {
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
  }
}

void check_model_type(Reader& reader, ProblemList& problems) {
  std::string type = "bert";  // files from before 2020 do not say
  reader.text("model_type", type);
  if (type != "bert") {
    problems.add("model_type is " + in_quotes(type) + ", but only \"bert\" models can be read from a folder.");
  }
}

}  // namespace

ModelConfig parse_hf_config(const std::string& text, const std::string& what) {
  const json root = parse_strict_json(text, what);
  ModelConfig config;
  ProblemList problems;
  Reader reader(root, problems);
  check_model_type(reader, problems);
  reader.integer("vocab_size", config.vocab_size);
  reader.integer("hidden_size", config.hidden_size);
  reader.integer("num_hidden_layers", config.num_hidden_layers);
  reader.integer("num_attention_heads", config.num_attention_heads);
  reader.integer("intermediate_size", config.intermediate_size);
  reader.integer("max_position_embeddings", config.max_position_embeddings);
  reader.integer("type_vocab_size", config.type_vocab_size);
  reader.number("hidden_dropout_prob", config.hidden_dropout_prob);
  reader.number("attention_probs_dropout_prob", config.attention_probs_dropout_prob);
  reader.number("classifier_dropout", config.classifier_dropout);
  reader.number("layer_norm_eps", config.layer_norm_eps);
  reader.number("initializer_range", config.initializer_range);
  reader.text("hidden_act", config.hidden_act);
  reader.text("problem_type", config.problem_type);
  std::optional<std::int64_t> pad_token_id = config.pad_token_id;
  reader.integer("pad_token_id", pad_token_id);
  config.pad_token_id = pad_token_id.value_or(0);
  reader.integer("bos_token_id", config.bos_token_id);
  reader.integer("eos_token_id", config.eos_token_id);
  reader.integer("cls_token_id", config.cls_token_id);
  reader.integer("sep_token_id", config.sep_token_id);
  reader.integer("mask_token_id", config.mask_token_id);
  read_label_names(reader, config, problems);
  reader.must_be("position_embedding_type", "absolute", "relative positions would give other results.");
  reader.must_be("is_decoder", false, "a decoder's attention is causal.");
  reader.must_be("add_cross_attention", false, "there is no second sequence to attend to.");
  if (config.hidden_act == "gelu_python") config.hidden_act = "gelu";  // the same function under its older name
  check(config, problems);
  problems.throw_if_any(ExitCode::files, what + ": this configuration is not supported:");
  return config;
}

ModelConfig read_hf_config(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "config.json";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw Error(ExitCode::files, "there is no folder " + folder.string() +
                                     ". A pretrained model is a folder on this machine that holds config.json and "
                                     "model.safetensors; models are never downloaded.");
  }
  if (!std::filesystem::exists(path, ignored)) {
    throw Error(ExitCode::files, path.string() +
                                     ": missing. A folder of a Hugging Face model holds config.json, "
                                     "model.safetensors and the tokenizer's files.");
  }
  return parse_hf_config(core::read_text_file(path.string(), longest_config), path.string());
}

std::string hf_config_text(const ModelConfig& config, const layers::HeadKind& head) {
  json root = {
      {"add_cross_attention", false},
      {"architectures", json::array({head.architecture})},
      {"attention_probs_dropout_prob", config.attention_probs_dropout_prob},
      {"classifier_dropout", config.classifier_dropout ? json(*config.classifier_dropout) : json(nullptr)},
      {"dtype", "float32"},
      {"hidden_act", config.hidden_act},
      {"hidden_dropout_prob", config.hidden_dropout_prob},
      {"hidden_size", config.hidden_size},
      {"initializer_range", config.initializer_range},
      {"intermediate_size", config.intermediate_size},
      {"is_decoder", false},
      {"layer_norm_eps", config.layer_norm_eps},
      {"max_position_embeddings", config.max_position_embeddings},
      {"model_type", "bert"},
      {"num_attention_heads", config.num_attention_heads},
      {"num_hidden_layers", config.num_hidden_layers},
      {"pad_token_id", config.pad_token_id},
      {"position_embedding_type", "absolute"},
      {"tie_word_embeddings", true},
      {"type_vocab_size", config.type_vocab_size},
      {"vocab_size", config.vocab_size},
  };
  const auto optional_id = [&root](const char* key, std::optional<std::int64_t> id) {
    if (id) root[key] = *id;
  };
  optional_id("bos_token_id", config.bos_token_id);
  optional_id("eos_token_id", config.eos_token_id);
  optional_id("cls_token_id", config.cls_token_id);
  optional_id("sep_token_id", config.sep_token_id);
  optional_id("mask_token_id", config.mask_token_id);
  if (!head.ties_word_embeddings) {
    if (!config.problem_type.empty()) root["problem_type"] = config.problem_type;
    json id2label = json::object(), label2id = json::object();
    for (std::size_t i = 0; i < config.label_names.size(); ++i) {
      id2label[std::to_string(i)] = config.label_names[i];
      label2id[config.label_names[i]] = i;
    }
    root["id2label"] = std::move(id2label);
    root["label2id"] = std::move(label2id);
  }
  return root.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace bert_hpc::model
