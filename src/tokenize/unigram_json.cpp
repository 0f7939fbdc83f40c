// Components that this program does not compute are named as problems; the decoder is not read.
#include "unigram_json.hpp"

#include <cmath>
#include <unordered_set>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/json.hpp"
#include "bert_hpc/core/text.hpp"
#include "json_sections.hpp"

namespace bert_hpc::tokenize {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;
using Problems = std::vector<std::string>;

/// Pieces and scores by id; none, and a problem, for other lists.
std::vector<std::string> pieces_of(TokenizerDocument& document, UnigramForm& form, std::string& problem) {
  std::vector<std::string> pieces;
  if (document.too_many_entries) {
    problem = "has more than " + core::with_commas(max_entries) + " entries.";
  } else if (document.scored.empty()) {
    problem = "is missing or empty, or is no list of pieces and scores.";
  } else {
    pieces = take_pieces(document.scored, form, problem);
  }
  if (!problem.empty()) problem = "model.vocab " + problem;
  return pieces;
}

}  // namespace

std::vector<std::string> take_pieces(std::vector<ScoredPiece>& pieces, UnigramForm& form, std::string& problem) {
  std::vector<std::string> texts;
  std::unordered_set<std::string> seen;
  for (ScoredPiece& piece : pieces) {
    const std::string name = '"' + core::printable(piece.piece, 80) + '"';
    if (!piece.is_valid || !std::isfinite(piece.score)) {
      problem = "has the element " + std::to_string(texts.size()) + ", which is no piece with its score.";
    } else if (piece.piece.empty() || piece.piece.find_first_of("\r\n") != std::string::npos ||
               piece.piece.find('\0') != std::string::npos) {
      problem = "has the piece " + name + ", which is empty or holds a line end or a zero byte.";
    } else if (!seen.insert(piece.piece).second) {
      problem = "has the piece " + name + " twice.";
    }
    if (!problem.empty()) {
      form.scores.clear();
      return {};
    }
    form.scores.push_back(piece.score);
    texts.push_back(std::move(piece.piece));
  }
  return texts;
}

void read_unigram_json(TokenizerDocument& document, TokenizerJson& result) {
  const json& model = member(document.json, "model");
  UnigramForm form;
  TokenizerParts& parts = result.parts;
  form.byte_fallback = is_on(model, "byte_fallback", false);
  form.text = read_marked_form(document.json, "Unigram", true, result.problems);
  parts.vocabulary = pieces_of(document, form, result.vocabulary_problem);
  const json& unknown = member(model, "unk_id");
  const bool is_id = unknown.is_number_integer() && unknown >= 0 && unknown < std::ssize(parts.vocabulary);
  if (is_id) form.unknown = unknown.get<std::int32_t>();
  if (!is_id && !parts.vocabulary.empty()) {
    result.problems.push_back("model.unk_id is " + shown(unknown) + ", which is no id of the vocabulary.");
  }
  parts.added = read_added_tokens(member(document.json, "added_tokens"), result.problems);
  if (!parts.vocabulary.empty()) {
    check_template_ids(member(document.json, "post_processor"), parts.vocabulary, parts.added, result.problems);
  }
  parts.sections = text_of(form);
}

std::string unigram_json_text(const TokenizerParts& parts, const UnigramForm& form, const TokenTemplate& tokens,
                              const SpecialIds& ids) {
  ordered_json vocabulary = ordered_json::array();
  for (std::size_t id = 0; id < parts.vocabulary.size(); ++id) {
    vocabulary.push_back(ordered_json::array({parts.vocabulary[id], form.scores[id]}));
  }
  ordered_json document = marked_document(form.text, parts.added, tokens, ids);
  document["decoder"] = {{"type", "Metaspace"},
                         {"replacement", std::string(word_mark)},
                         {"prepend_scheme", name_of(form.text.marks.mark)},
                         {"split", true}};
  document["model"] = {
      {"type", "Unigram"}, {"unk_id", form.unknown}, {"vocab", vocabulary}, {"byte_fallback", form.byte_fallback}};
  return core::json_text(document, 1) + "\n";
}

std::string text_of(const UnigramForm& form) {
  return core::json_text(json{{"scores", form.scores},
                              {"unknown", form.unknown},
                              {"byte_fallback", form.byte_fallback},
                              {"text", sections_of(form.text)}});
}

UnigramForm unigram_form_of(const std::string& sections) {
  const json given = core::parse_json(sections);
  core::require(given.is_object(), "sections of a Unigram tokenizer are JSON");
  return {.scores = given.at("scores").get<std::vector<double>>(),
          .unknown = given.at("unknown").get<std::int32_t>(),
          .byte_fallback = given.at("byte_fallback").get<bool>(),
          .text = marked_form_of(given.at("text"))};
}

}  // namespace bert_hpc::tokenize
