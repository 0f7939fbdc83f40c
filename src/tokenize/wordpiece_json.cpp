// Each section of the file is compared with what WordPieceEncoder does; what differs becomes one of the problems.
#include "wordpiece_json.hpp"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/tokenize/added_tokens_json.hpp"
#include "bert_hpc/tokenize/wordpiece.hpp"
#include "json_member.hpp"
#include "template_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  return core::printable(core::json_text(value), 80);
}

/// What `value` is by its "type", for messages.
std::string type_of(const json& value) {
  if (value.is_null()) return "missing";
  const json& type = member(value, "type");
  return "of type " + (type.is_string() ? shown(type) : shown(value));
}

bool has_type(const json& value, const char* type) {
  return member(value, "type") == type;
}

/// A Sequence of one element is that element.
const json& unwrapped(const json& value, const char* list) {
  const json& elements = member(value, list);
  const bool one = has_type(value, "Sequence") && elements.is_array() && elements.size() == 1;
  return one ? elements.front() : value;
}

/// The pieces by id; empty, and a problem, where the entries are not 0 … n-1, each once.
std::vector<std::string> pieces_of(TokenizerDocument& document, std::string& problem) {
  const auto fail = [&](const std::string& text) {
    problem = "model.vocab " + text;
    return std::vector<std::string>();
  };
  const std::size_t count = document.entries.size();
  if (document.too_many_entries) return fail("has more than " + core::with_commas(max_entries) + " entries.");
  if (count == 0) return fail("is missing or empty, or is no object of pieces and ids.");
  std::unordered_set<std::string_view> seen;
  for (const VocabularyEntry& entry : document.entries) {
    const std::string name = '"' + core::printable(entry.piece, 80) + '"';
    if (!seen.insert(entry.piece).second) return fail("has the piece " + name + " twice.");
    if (entry.piece.find_first_of("\r\n") != std::string::npos || entry.piece.find('\0') != std::string::npos) {
      return fail("has the piece " + name + ", which holds a line end or a zero byte; no word has one.");
    }
    if (entry.id < 0) return fail("gives the piece " + name + " an id that is not a whole number from 0 on.");
    if (entry.id >= static_cast<std::int64_t>(count)) {
      return fail("has " + core::counted(static_cast<std::int64_t>(count), "entry", "entries") +
                  " and gives the piece " + name + " the id " + std::to_string(entry.id) + "; ids must be 0 to " +
                  std::to_string(count - 1) + ", each once.");
    }
  }
  seen.clear();
  std::vector<std::string> pieces(count);
  std::vector<bool> taken(count, false);
  for (VocabularyEntry& entry : document.entries) {
    const auto id = static_cast<std::size_t>(entry.id);
    if (taken[id]) {
      return fail("gives the id " + std::to_string(id) + " to \"" + core::printable(pieces[id], 80) + "\" and \"" +
                  core::printable(entry.piece, 80) + "\".");
    }
    taken[id] = true;
    pieces[id] = std::move(entry.piece);
  }
  return pieces;
}

void check_model(const json& model, std::vector<std::string>& problems) {
  const auto must_be = [&](const char* key, const json& only) {
    const json& value = member(model, key);
    if (value == only || (value.is_null() && key != std::string("unk_token"))) return;  // absent: the library's default
    problems.push_back("model." + std::string(key) + " is " + shown(value) + "; this version reads only " +
                       core::json_text(only) + ".");
  };
  must_be("unk_token", "[UNK]");
  must_be("continuing_subword_prefix", "##");
  must_be("max_input_chars_per_word", longest_word);
}

std::optional<TextForm> read_normalizer(const json& given, std::vector<std::string>& problems) {
  const json& normalizer = unwrapped(given, "normalizers");
  if (!has_type(normalizer, "BertNormalizer")) {
    problems.push_back("its normalizer is " + type_of(normalizer) + "; this version reads BertNormalizer.");
    return std::nullopt;
  }
  for (const char* key : {"clean_text", "handle_chinese_chars", "lowercase"}) {
    if (!member(normalizer, key).is_boolean()) {
      problems.push_back("normalizer." + std::string(key) + " is " + shown(member(normalizer, key)) +
                         "; it must be true or false.");
      return std::nullopt;
    }
  }
  if (!member(normalizer, "clean_text").get<bool>()) {
    problems.push_back("normalizer.clean_text is false; this version always drops control characters.");
  }
  const json& strips = member(normalizer, "strip_accents");
  TextForm form;
  form.lowercase = member(normalizer, "lowercase").get<bool>();
  form.tokenize_chinese_chars = member(normalizer, "handle_chinese_chars").get<bool>();
  form.strip_accents = strips.is_boolean() ? strips.get<bool>() : form.lowercase;
  return form;
}

void check_pre_tokenizer(const json& given, std::vector<std::string>& problems) {
  const json& pre_tokenizer = unwrapped(given, "pretokenizers");
  if (has_type(pre_tokenizer, "BertPreTokenizer")) return;
  problems.push_back("its pre_tokenizer is " + type_of(pre_tokenizer) + "; this version reads BertPreTokenizer.");
}

/// The template of sequences, the second text and what follows it of token type 1.
void check_post_processor(const json& given, const std::vector<std::string>& pieces,
                          std::vector<std::string>& problems) {
  const json& processor = unwrapped(given, "processors");
  const SequenceTemplate& sequence = wordpiece_kind().sequence;
  const auto id = [&](const char* piece) { return std::find(pieces.begin(), pieces.end(), piece) - pieces.begin(); };
  const json& tokens = member(processor, "special_tokens");
  const bool template_fits = member(processor, "single") == template_list<json>(sequence, false, special_token_name) &&
                             member(processor, "pair") == template_list<json>(sequence, true, special_token_name) &&
                             member(member(tokens, "[CLS]"), "ids") == json::array({id("[CLS]")}) &&
                             member(member(tokens, "[SEP]"), "ids") == json::array({id("[SEP]")});
  const bool bert = member(processor, "cls") == json::array({"[CLS]", id("[CLS]")}) &&
                    member(processor, "sep") == json::array({"[SEP]", id("[SEP]")});
  if (has_type(processor, "TemplateProcessing") ? template_fits : has_type(processor, "BertProcessing") && bert) return;
  problems.push_back("its post_processor is " + type_of(processor) + " and does not make \"" +
                     describe(sequence, false) + "\" of a text and \"" + describe(sequence, true) +
                     "\" of a pair, with the vocabulary's ids; this version makes only these.");
}

/// BERT's special tokens have the vocabulary's ids, and are found anywhere in the text as it is.
void check_special_token(const AddedToken& token, const std::vector<std::string>& pieces,
                         std::vector<std::string>& problems) {
  const auto known = std::find(std::begin(special_token_names), std::end(special_token_names), token.content);
  if (known == std::end(special_token_names)) return;
  const auto at = static_cast<std::size_t>(std::find(pieces.begin(), pieces.end(), *known) - pieces.begin());
  if (token.id != static_cast<std::int64_t>(at) && at < pieces.size()) {
    problems.push_back("added_tokens gives " + token.content + " the id " + std::to_string(token.id) +
                       ", and model.vocab " + std::to_string(at) + ".");
  }
  for (const auto& [is_on, key] :
       {std::pair(token.single_word, "single_word"), std::pair(token.normalized, "normalized")}) {
    if (!is_on) continue;
    problems.push_back("added_tokens has " + std::string(key) + " = true for " + token.content +
                       "; this version finds it anywhere in the text as it is.");
  }
}

std::vector<AddedToken> read_added_tokens(const json& tokens, const std::vector<std::string>& pieces,
                                          std::vector<std::string>& problems) {
  std::vector<AddedToken> all;
  for (const json& given : tokens) {
    const std::optional<AddedToken> token = added_token_of(given);
    if (token && given.is_object()) {
      check_special_token(*token, pieces, problems);
      all.push_back(*token);
    } else {
      problems.push_back("added_tokens has " + shown(given) + ", which is no object with a text and an id.");
    }
  }
  return all;
}

}  // namespace

std::optional<AddedToken> added_token_of(const json& token) {
  if (token.is_string()) return AddedToken{.content = token.get<std::string>(), .special = true};
  const json& content = member(token, "content");
  if (!content.is_string()) return std::nullopt;
  const auto is_on = [&](const char* key) { return member(token, key) == true; };
  AddedToken read{.content = content.get<std::string>(),
                  .single_word = is_on("single_word"),
                  .lstrip = is_on("lstrip"),
                  .rstrip = is_on("rstrip"),
                  .special = is_on("special")};
  const json &normalized = member(token, "normalized"), &id = member(token, "id");
  read.normalized = normalized.is_boolean() ? normalized.get<bool>() : !read.special;
  const bool has_id = id.is_number_integer() && id >= 0 && id <= std::numeric_limits<std::int32_t>::max();
  if (has_id) read.id = id.get<std::int32_t>();
  return read;
}

void read_wordpiece_json(TokenizerDocument& document, TokenizerJson& result) {
  result.pieces = pieces_of(document, result.vocabulary_problem);
  check_model(member(document.json, "model"), result.problems);
  result.form = read_normalizer(member(document.json, "normalizer"), result.problems);
  check_pre_tokenizer(member(document.json, "pre_tokenizer"), result.problems);
  if (!result.pieces.empty()) {
    check_post_processor(member(document.json, "post_processor"), result.pieces, result.problems);
  }
  result.added = read_added_tokens(member(document.json, "added_tokens"), result.pieces, result.problems);
}

}  // namespace bert_hpc::tokenize
