// As Transformers 5.24 converts a model: its class in Python, not the model, decides which ids pieces have, on the
// special tokens and on how text is split.
#include "sentencepiece_files.hpp"

#include <algorithm>
#include <filesystem>
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

/// The special tokens by role.
struct SpecialTokens {
  AddedToken bos{}, eos{}, unk{}, sep{}, pad{}, cls{}, mask{};
};

struct SpecialName {
  const char* role;
  const char *roberta, *bert;  // usual names
  AddedToken SpecialTokens::*token;
};
/// In the order in which tokens that the vocabulary lacks get ids.
constexpr SpecialName special_names[] = {
    {"bos", "<s>", "[CLS]", &SpecialTokens::bos},       {"eos", "</s>", "[SEP]", &SpecialTokens::eos},
    {"unk", "<unk>", "[UNK]", &SpecialTokens::unk},     {"sep", "</s>", "[SEP]", &SpecialTokens::sep},
    {"pad", "<pad>", "[PAD]", &SpecialTokens::pad},     {"cls", "<s>", "[CLS]", &SpecialTokens::cls},
    {"mask", "<mask>", "[MASK]", &SpecialTokens::mask},
};

ScoredPiece scored(const std::string& text, double score = 0) {
  return {text, score, true};
}

/// Null: there is none.
const AddedToken* find_token(const std::vector<AddedToken>& tokens, const std::string& content) {
  const auto found =
      std::find_if(tokens.begin(), tokens.end(), [&](const AddedToken& token) { return token.content == content; });
  return found == tokens.end() ? nullptr : &*found;
}

/// Pieces, those of the model from the one of this index on, and the mask.
Pieces fairseq_pieces(Pieces pieces, const SentencePieceModel& model, std::size_t first, const SpecialTokens& special) {
  for (std::size_t i = first; i < model.pieces.size(); ++i) {
    pieces.push_back(scored(model.pieces[i].text, model.pieces[i].score));
  }
  pieces.push_back(scored(special.mask.content));
  return pieces;
}

/// Vocabularies of classes. Two have the ids of fairseq's dictionaries, where unk is 3, and the third those of the
/// model.
Pieces xlm_roberta_pieces(const SentencePieceModel& model, const SpecialTokens& special) {
  return fairseq_pieces({scored(special.bos.content), scored(special.pad.content), scored(special.eos.content),
                         scored(special.unk.content)},
                        model, 3, special);
}
Pieces camembert_pieces(const SentencePieceModel& model, const SpecialTokens& special) {
  return fairseq_pieces({scored("<s>NOTUSED"), scored(special.pad.content), scored("</s>NOTUSED"),
                         scored(special.unk.content), scored("<unk>NOTUSED", -100)},
                        model, 1, special);
}
Pieces deberta_pieces(const SentencePieceModel& model, const SpecialTokens&) {
  Pieces pieces;
  for (const SentencePieceModel::Piece& piece : model.pieces) pieces.push_back(scored(piece.text, piece.score));
  return pieces;
}

/// How classes normalize and cut text.
WordMarks fairseq_marks(const SentencePieceModel& model, const json& config) {
  WordMarks marks{.splits_blanks = true};
  if (!model.character_map.empty()) marks.steps.push_back({.kind = TextStep::Kind::map});
  if (!is_on(config, "add_prefix_space", true)) marks.mark = WordMark::never;
  return marks;
}
/// The model's table of characters is not used: Transformers 4 applied it instead of composition.
WordMarks deberta_marks(const SentencePieceModel&, const json& config) {
  WordMarks marks{.splits_punctuation = is_on(config, "split_by_punct", false)};
  if (is_on(config, "do_lower_case", false)) marks.steps.push_back({.kind = TextStep::Kind::lowercase});
  marks.steps.push_back({.kind = TextStep::Kind::merge_blanks, .to = " "});
  marks.steps.push_back({.kind = TextStep::Kind::compose});
  marks.steps.push_back({.kind = TextStep::Kind::strip, .right = true});
  if (!is_on(config, "add_prefix_space", true)) marks.mark = WordMark::first;
  return marks;
}

/// "[CLS] a [SEP] b [SEP]", whose second text has token type 1.
const SequenceTemplate& deberta_sequence() {
  static const SequenceTemplate sequence = [] {
    SequenceTemplate made;
    made.before = {&SpecialIds::cls};
    made.after = made.between = made.after_pair = {&SpecialIds::sep};
    made.second_type = 1;
    return made;
  }();
  return sequence;
}

/// A class of Transformers.
struct Conversion {
  const char* name;        // or with "Fast" behind it
  const char* model_type;  // of its models, whose folders need not name the class
  const char* file;
  const char* SpecialName::*usual;  // names of the special tokens that files do not state
  bool mask_takes_blanks;
  Pieces (*pieces)(const SentencePieceModel& model, const SpecialTokens& special);
  WordMarks (*marks)(const SentencePieceModel& model, const json& config);
  const SequenceTemplate& (*sequence)();
  AddedToken SpecialTokens::*first;  // the token before texts
  AddedToken SpecialTokens::*last;   // and the one behind them
  const char* vocab_type;            // that tokenizer_config.json may state; null: it states none
  bool has_own_unknown;              // of the model; else it is the piece 3
  bool takes_marks_of_json;          // reads normalizer and pre-tokenizer of a tokenizer.json
};
constexpr Conversion conversions[] = {
    {"XLMRobertaTokenizer", "xlm-roberta", sentencepiece_bpe_name, &SpecialName::roberta, false, xlm_roberta_pieces,
     fairseq_marks, roberta_sequence, &SpecialTokens::bos, &SpecialTokens::eos, nullptr, false, true},
    {"CamembertTokenizer", "camembert", sentencepiece_bpe_name, &SpecialName::roberta, true, camembert_pieces,
     fairseq_marks, roberta_sequence, &SpecialTokens::bos, &SpecialTokens::eos, nullptr, false, true},
    {"DebertaV2Tokenizer", "deberta-v2", spm_name, &SpecialName::bert, false, deberta_pieces, deberta_marks,
     deberta_sequence, &SpecialTokens::cls, &SpecialTokens::sep, "spm", true, false},
};

/// The tokenizer_class that the folder states; "" if it does not.
std::string stated_class(const ConfigFile& config) {
  const json& stated = member(config.json, "tokenizer_class");
  return stated.is_string() ? stated.get<std::string>() : "";
}

/// Null for other classes.
const Conversion* find_conversion(const ConfigFile& config, const std::string& folder) {
  const std::string name = stated_class(config), type = model_type_of(folder);
  constexpr std::string_view fast = "Fast";
  const std::string own = name.ends_with(fast) ? name.substr(0, name.size() - fast.size()) : name;
  for (const Conversion& one : conversions) {
    if (name.empty() ? type == one.model_type : own == one.name) return &one;
  }
  return nullptr;
}

/// Null, and a problem, for other classes, and those whose models have another name than `file`.
const Conversion* conversion_of(const ConfigFile& config, const std::string& folder, const std::string& file,
                                std::string& problem) {
  const Conversion* const found = find_conversion(config, folder);
  if (found != nullptr && file == found->file) return found;
  if (found != nullptr) {
    problem = "is no file of " + std::string(found->name) + ", whose model is " + found->file +
              ": rename it, or remove it if the folder has both.";
    return nullptr;
  }
  const std::string name = stated_class(config), type = model_type_of(folder);
  std::vector<std::string> classes;
  for (const Conversion& one : conversions) classes.emplace_back(one.name);
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
    token = {.content = name.*conversion.usual, .lstrip = is_mask && conversion.mask_takes_blanks};
    if (given.is_string()) token.content = given.get<std::string>();
    if (given.is_object()) token = added_token_of(given).value_or(token);
    if (const AddedToken* const found = find_token(listed, token.content)) token = *found;
    token.special = true;
  }
  return special;
}

/// The id of unknown characters as the class has it; a problem if that is none.
std::int32_t unknown_id(const Conversion& conversion, const SentencePieceModel& model, const Pieces& pieces,
                        const SpecialTokens& special, std::string& problem) {
  if (!conversion.has_own_unknown) return 3;
  const auto found = std::find_if(pieces.begin(), pieces.end(), [&](const ScoredPiece& piece) {
    return piece.piece == special.unk.content && piece.score == 0;
  });
  if (found != pieces.end()) return static_cast<std::int32_t>(found - pieces.begin());
  if (model.unknown < 0 || model.unknown >= std::ssize(pieces)) {
    problem = "has the id " + std::to_string(model.unknown) + " for unknown characters, which is no id of its pieces.";
  }
  return model.unknown;
}

/// What the class computes beside the pieces' scores.
MarkedForm form_of(const Conversion& conversion, const SentencePieceModel& model, const SpecialTokens& special,
                   const json& config) {
  MarkedForm text{.marks = conversion.marks(model, config)};
  const auto is_map = [](const TextStep& step) { return step.kind == TextStep::Kind::map; };
  const bool has_map = std::any_of(text.marks.steps.begin(), text.marks.steps.end(), is_map);
  if (has_map) text.character_map = base64_text(model.character_map);
  const auto name = [&](std::int32_t SpecialIds::*role) {
    return (special.*(role == &SpecialIds::cls ? conversion.first : conversion.last)).content;
  };
  text.single = template_list(conversion.sequence(), false, name);
  text.pair = template_list(conversion.sequence(), true, name);
  return text;
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

void read_sentencepiece(const std::string& file, const ConfigFile& config, TokenizerParts& parts,
                        std::vector<std::string>& problems) {
  const std::filesystem::path path = file;
  const std::string folder = path.parent_path().string();
  std::string problem;
  const auto fails = [&] {
    if (!problem.empty()) problems.push_back(file + ": " + problem);
    return !problem.empty();
  };
  const Conversion* const conversion = conversion_of(config, folder, path.filename().string(), problem);
  if (fails()) return;
  const json& type = member(config.json, "vocab_type");
  if (conversion->vocab_type != nullptr && !type.is_null() && type != conversion->vocab_type) {
    return problems.push_back(config.path + ": vocab_type is " + shown(type) + ", but " + path.filename().string() +
                              " holds a vocabulary of the type \"" + conversion->vocab_type +
                              "\": correct vocab_type, or remove " + path.filename().string() +
                              " if it is not the model's.");
  }
  const auto model = sentencepiece_model_of(core::read_text_file(file, longest_model), problem);
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
  Pieces pieces = conversion->pieces(*model, special);
  UnigramForm form{.unknown = unknown_id(*conversion, *model, pieces, special, problem),
                   .text = form_of(*conversion, *model, special, config.json)};
  if (fails()) return;
  parts.vocabulary = take_pieces(pieces, form, problem);
  if (fails()) return;
  parts.sections = text_of(form);
  parts.added = added_tokens(*model, special, config.json, listed);
  for (const SpecialName& name : special_names) parts.special_tokens[name.role] = (special.*name.token).content;
}

std::string sentencepiece_class_difference(const std::string& folder, const ConfigFile& config,
                                           const TokenizerParts& parts) {
  const Conversion* const conversion = find_conversion(config, folder);
  if (conversion == nullptr || conversion->takes_marks_of_json) return {};
  if (conversion->marks({}, config.json) == unigram_form_of(parts.sections).text.marks) return {};
  return folder + "/tokenizer.json says how text is normalized and split, and " + conversion->name +
         " of Transformers 5 does it otherwise, for it does not read that; tokenizer.json is used, as in Transformers "
         "4. For the other way, load and save the folder in Python: transformers.AutoTokenizer.from_pretrained(\"" +
         folder + "\").save_pretrained(DIR).";
}

}  // namespace bert_hpc::tokenize
