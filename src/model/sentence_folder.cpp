#include "bert_hpc/model/sentence_folder.hpp"

#include <array>
#include <nlohmann/json.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/json_bounded.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using nlohmann::json;

constexpr std::int64_t longest_file = 1 << 20;
constexpr const char* modules_file = "modules.json";
constexpr const char* prompts_file = "config_sentence_transformers.json";
constexpr const char* type_prefix = "sentence_transformers.models.";

/// Names of a pooling: ours, that of version 6, and the switch of earlier versions, which version 6 reads too.
struct NamedPooling {
  const char *word, *name, *key;
};
constexpr std::array poolings = {
    NamedPooling{"cls", "cls", "pooling_mode_cls_token"}, NamedPooling{"mean", "mean", "pooling_mode_mean_tokens"},
    NamedPooling{"max", "max", "pooling_mode_max_tokens"}, NamedPooling{"last", "lasttoken", "pooling_mode_lasttoken"}};

/// The pooling of 1_Pooling/config.json: one of ours alone.
void read_pooling(const std::filesystem::path& path, SentenceModules& modules) {
  const json config = core::read_strict_json(path, longest_file);
  std::string on;
  const auto named = config.find("pooling_mode");
  if (named != config.end()) on = named->is_string() ? named->get<std::string>() : named->dump();
  for (const auto& [key, value] : config.items()) {
    if (key.starts_with("pooling_mode_") && value == true) on += (on.empty() ? "" : " and ") + key;
  }
  for (const NamedPooling& known : poolings) {
    if (on == known.name || on == known.key) modules.pooling = known.word;
  }
  for (const char* key : {"embedding_dimension", "word_embedding_dimension"}) {
    const auto dimensions = config.find(key);
    if (dimensions != config.end() && dimensions->is_number_integer()) modules.dimensions = *dimensions;
  }
  if (!modules.pooling.empty()) return;
  throw Error(ExitCode::input, path.string() + ": pools by " + (on.empty() ? "nothing" : core::printable(on, 200)) +
                                   ", which is not computed here: set [embed] pooling to take another one.");
}

/// "Pooling" of "sentence_transformers.models.Pooling" and of the longer names of later versions.
std::string kind_of(const json& module) {
  const auto type = module.find("type");
  if (type == module.end() || !type->is_string()) return "";
  const std::string name = *type;
  return name.substr(name.rfind('.') + 1);
}

}  // namespace

std::optional<SentenceModules> read_sentence_modules(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / modules_file;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::nullopt;
  const json listed = core::parse_bounded_json(core::read_text_file(path.string(), longest_file));
  if (!listed.is_array()) throw Error(ExitCode::files, path.string() + ": is no JSON array of modules.");
  SentenceModules modules;
  for (const json& module : listed) {
    const std::string kind = module.is_object() ? kind_of(module) : "";
    const std::string inner = module.is_object() ? module.value("path", "") : "";
    const bool is_inside = inner.find("..") == std::string::npos && !inner.starts_with('/');
    if (kind == "Pooling" && is_inside) {
      read_pooling(folder / inner / "config.json", modules);
    } else if (kind == "Normalize") {
      modules.normalize = true;
    } else if (kind != "Transformer" || !inner.empty()) {
      throw Error(ExitCode::input, path.string() + ": the module " + core::printable(module.dump(), 200) +
                                       " is not computed here: set [embed] pooling to take the encoder's embeddings.");
    }
  }
  if (modules.pooling.empty()) throw Error(ExitCode::input, path.string() + ": names no pooling.");
  const std::filesystem::path settings = folder / "sentence_bert_config.json";
  if (std::filesystem::exists(settings, ignored)) {
    const json config = core::read_strict_json(settings, longest_file);
    const auto tokens = config.find("max_seq_length");
    if (tokens != config.end() && tokens->is_number_integer()) modules.max_tokens = *tokens;
  }
  return modules;
}

SentencePrompts read_sentence_prompts(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / prompts_file;
  SentencePrompts prompts;
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return prompts;
  const json config = core::read_strict_json(path, longest_file);
  const auto name = config.find("default_prompt_name"), texts = config.find("prompts");
  if (name != config.end() && name->is_string()) prompts.default_name = *name;
  if (texts == config.end() || texts->is_null()) return prompts;
  const auto refuse = [&] { throw Error(ExitCode::files, path.string() + ": prompts must be an object of texts."); };
  if (!texts->is_object()) refuse();
  for (const auto& [use, text] : texts->items()) {
    if (!text.is_string()) refuse();
    prompts.texts[use] = text;
  }
  return prompts;
}

NamedTexts sentence_files(const SentenceModules& modules) {
  const auto text = [](const json& value) { return core::json_text(value, 2) + "\n"; };
  json listed = json::array();
  const auto add = [&listed](const std::string& path, const char* kind) {
    const std::size_t number = listed.size();
    listed.push_back(
        {{"idx", number}, {"name", std::to_string(number)}, {"path", path}, {"type", type_prefix + std::string(kind)}});
  };
  add("", "Transformer");
  add("1_Pooling", "Pooling");
  if (modules.normalize) add("2_Normalize", "Normalize");
  json pooling = {{"word_embedding_dimension", modules.dimensions}};
  for (const NamedPooling& known : poolings) pooling[known.key] = modules.pooling == known.word;
  const std::string& default_name = modules.prompts.default_name;
  json settings = {{"do_lower_case", false}};  // the tokenizer's files say
  if (modules.max_tokens > 0) settings["max_seq_length"] = modules.max_tokens;
  return {{modules_file, text(listed)},
          {"1_Pooling/config.json", text(pooling)},
          {"sentence_bert_config.json", text(settings)},
          {prompts_file, text({{"prompts", modules.prompts.texts},
                               {"default_prompt_name", default_name.empty() ? json(nullptr) : json(default_name)},
                               {"similarity_fn_name", modules.similarity}})}};
}

}  // namespace bert_hpc::model
