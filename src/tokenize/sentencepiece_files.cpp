// As Transformers 5.24 converts a model: its class in Python, not the model, decides which ids pieces have, on the
// special tokens and on how text is split.
#include "sentencepiece_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "added_token_files.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/text_file.hpp"
#include "bert_hpc/tokenize/added_tokens_json.hpp"
#include "character_map.hpp"
#include "json_sections.hpp"
#include "role_tokens.hpp"
#include "sentencepiece_model.hpp"
#include "template_json.hpp"
#include "unigram_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using Pieces = std::vector<ScoredPiece>;

constexpr std::int64_t longest_model = std::int64_t{64} << 20;  // bytes; XLM-RoBERTa's has 5 MB

/// The special tokens by role. Those of bos_token and eos_token stand around texts.
struct SpecialTokens {
  AddedToken bos{}, eos{}, unk{}, sep{}, pad{}, cls{}, mask{};
};

struct SpecialName {
  const char* role;
  const char* usual;
  AddedToken SpecialTokens::*token;
};
/// In the order in which tokens that the vocabulary lacks get ids.
constexpr SpecialName special_names[] = {{"bos", "<s>", &SpecialTokens::bos},     {"eos", "</s>", &SpecialTokens::eos},
                                         {"unk", "<unk>", &SpecialTokens::unk},   {"sep", "</s>", &SpecialTokens::sep},
                                         {"pad", "<pad>", &SpecialTokens::pad},   {"cls", "<s>", &SpecialTokens::cls},
                                         {"mask", "<mask>", &SpecialTokens::mask}};

ScoredPiece scored(const std::string& text, double score = 0) {
  return {text, score, true};
}

/// Null: there is none.
const AddedToken* find_token(const std::vector<AddedToken>& tokens, const std::string& content) {
  const auto found =
      std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; });
  return found == tokens.end() ? nullptr : &*found;
}

/// The pieces before those of the model. Both classes have the ids of fairseq's dictionaries, where unk is 3.
Pieces xlm_roberta_begin(const SpecialTokens& special) {
  return {scored(special.bos.content), scored(special.pad.content), scored(special.eos.content),
          scored(special.unk.content)};
}
Pieces camembert_begin(const SpecialTokens& special) {
  return {scored("<s>NOTUSED"), scored(special.pad.content), scored("</s>NOTUSED"), scored(special.unk.content),
          scored("<unk>NOTUSED", -100)};
}

/// A class of Transformers.
struct Conversion {
  const char* name;        // or with "Fast" behind it
  const char* model_type;  // of its models, whose folders need not name the class
  Pieces (*begin)(const SpecialTokens& special);
  std::size_t left_out;  // first pieces of the model, which are among those before it
  bool mask_takes_blanks;
};
constexpr Conversion conversions[] = {
    {"XLMRobertaTokenizer", "xlm-roberta", xlm_roberta_begin, 3, false},
    {"CamembertTokenizer", "camembert", camembert_begin, 1, true},
};

/// Null, and a problem, for other classes.
const Conversion* conversion_of(const ConfigFile& config, const std::string& folder, std::string& problem) {
  const json& stated = member(config.json, "tokenizer_class");
  std::string name = stated.is_string() ? stated.get<std::string>() : "", type = model_type_of(folder);
  constexpr std::string_view fast = "Fast";
  const std::string own = name.ends_with(fast) ? name.substr(0, name.size() - fast.size()) : name;
  std::vector<std::string> classes;
  for (const Conversion& one : conversions) {
    if (name.empty() ? type == one.model_type : own == one.name) return &one;
    classes.emplace_back(one.name);
  }
  problem = "belongs to " +
            (!name.empty()   ? "the class \"" + core::printable(name, 60) + "\" of tokenizer_config.json"
             : !type.empty() ? "a model with model_type = \"" + type + "\""
                             : "a tokenizer whose class no tokenizer_config.json names (tokenizer_class)") +
            "; this version reads SentencePiece models of " + core::listed(classes, "and", false) +
            ". In Python, transformers.AutoTokenizer.from_pretrained(\"" + folder +
            "\").save_pretrained(DIR) writes a tokenizer.json.";
  return nullptr;
}

/// The special tokens as the folder's files state them. `listed`: tokens that files list with ids.
SpecialTokens special_tokens(const Conversion& conversion, const std::string& folder, const ConfigFile& config,
                             const std::vector<AddedToken>& listed) {
  const json older = special_tokens_map(folder, config.json);
  SpecialTokens special;
  for (const SpecialName& name : special_names) {
    const std::string key = std::string(name.role) + "_token";
    const json& newer = member(older, key.c_str());
    const json& given = newer.is_null() ? member(config.json, key.c_str()) : newer;
    AddedToken& token = special.*name.token;
    const bool is_mask = name.token == &SpecialTokens::mask;
    token = {.content = name.usual, .lstrip = is_mask && conversion.mask_takes_blanks};
    if (given.is_string()) token.content = given.get<std::string>();
    if (given.is_object()) token = added_token_of(given).value_or(token);
    if (const AddedToken* const found = find_token(listed, token.content)) token = *found;
    token.special = true;
  }
  return special;
}

/// What the class computes beside the pieces' scores.
UnigramForm form_of(const SentencePieceModel& model, const SpecialTokens& special, const json& config) {
  UnigramForm form{.unknown = 3};
  MarkedForm& text = form.text;
  text.character_map = base64_text(model.character_map);
  text.marks.splits_blanks = true;
  if (!text.character_map.empty()) text.marks.steps.push_back({.kind = TextStep::Kind::map});
  if (!is_on(config, "add_prefix_space", true)) text.marks.mark = WordMark::never;
  const auto name = [&](std::int32_t SpecialIds::*role) {
    return role == &SpecialIds::cls ? special.bos.content : special.eos.content;
  };
  text.single = template_list(roberta_sequence(), false, name);
  text.pair = template_list(roberta_sequence(), true, name);
  return form;
}

/// The special tokens, and those of the model, unless tokenizer_config.json has a list that replaces them.
std::vector<AddedToken> added_tokens(const SentencePieceModel& model, const SpecialTokens& special, const json& config,
                                     const std::vector<AddedToken>& listed) {
  std::vector<AddedToken> tokens;
  const auto add = [&](const AddedToken& token) {
    if (find_token(tokens, token.content) == nullptr) tokens.push_back(token);
  };
  for (const SpecialName& name : special_names) add(special.*name.token);
  if (config.contains("extra_special_tokens") || config.contains("additional_special_tokens")) return tokens;
  for (const SentencePieceModel::Piece& piece : model.pieces) {
    const bool is_control = piece.type == SentencePieceModel::PieceType::control;
    if (!is_control && piece.type != SentencePieceModel::PieceType::user_defined) continue;
    const AddedToken* const found = find_token(listed, piece.text);
    add(found != nullptr ? *found : AddedToken{.content = piece.text, .special = is_control});
  }
  return tokens;
}

}  // namespace

void read_sentencepiece(const std::string& folder, const ConfigFile& config, TokenizerParts& parts,
                        std::vector<std::string>& problems) {
  const std::string path = folder + "/" + sentencepiece_name;
  std::string problem;
  const auto fails = [&] {
    if (!problem.empty()) problems.push_back(path + ": " + problem);
    return !problem.empty();
  };
  const Conversion* const conversion = conversion_of(config, folder, problem);
  if (fails()) return;
  const auto model = sentencepiece_model_of(core::read_text_file(path, longest_model), problem);
  if (fails()) return;
  if (model->algorithm != SentencePieceModel::Algorithm::unigram) {
    constexpr const char* names[] = {"Unigram", "BPE", "word", "character"};
    problem = std::string("holds a ") + names[static_cast<int>(model->algorithm) - 1] +
              " model; this version reads Unigram models of SentencePiece.";
  } else {
    const CharacterMap checked(model->character_map, problem);
  }
  if (fails()) return;
  std::vector<std::string> repeated;  // added_tokens_of_folder() has these problems too
  const std::vector<AddedToken> listed = listed_tokens(folder, config.json, repeated);
  const SpecialTokens special = special_tokens(*conversion, folder, config, listed);
  Pieces pieces = conversion->begin(special);
  for (std::size_t i = conversion->left_out; i < model->pieces.size(); ++i) {
    pieces.push_back(scored(model->pieces[i].text, model->pieces[i].score));
  }
  pieces.push_back(scored(special.mask.content));
  UnigramForm form = form_of(*model, special, config.json);
  parts.vocabulary = take_pieces(pieces, form, problem);
  if (fails()) return;
  parts.sections = text_of(form);
  parts.added = added_tokens(*model, special, config.json, listed);
  for (const SpecialName& name : special_names) parts.special_tokens[name.role] = (special.*name.token).content;
}

}  // namespace bert_hpc::tokenize
