// Unigram as one of the kinds of tokenizers: those of XLM-RoBERTa, CamemBERT, DeBERTa-v3 and multilingual models of
// sentence-transformers, from tokenizer.json or a SentencePiece model.
#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/unigram.hpp"
#include "json_sections.hpp"
#include "role_tokenizer.hpp"
#include "sentencepiece_files.hpp"
#include "unigram_json.hpp"

namespace bert_hpc::tokenize {
namespace {

using core::Error;
using core::ExitCode;

constexpr double unknown_penalty = 10;  // below the least score, as SentencePiece's kUnkPenalty

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw Error(ExitCode::data, source + ": " + what);
}

class UnigramTokenizer final : public RoleTokenizer {
 public:
  UnigramTokenizer(TokenizerParts parts, const std::string& source) : RoleTokenizer(std::move(parts)) {
    if (parts_.sections.empty()) refuse(source, "a Unigram tokenizer needs its tokenizer.json.");
    form_ = unigram_form_of(parts_.sections);
    if (form_.scores.size() != parts_.vocabulary.size()) refuse(source, "its pieces and scores do not fit.");
    roles_ = role_tokens(parts_, form_.text.single, form_.text.pair, source);
    if (roles_.special.unk < 0) roles_.special.unk = form_.unknown;
    finish_roles();
    make_model(source);
    tokens_ = std::make_unique<SearchedTokens>(parts_.added, model_.marks);
  }

  const TokenizerKind& kind() const override { return unigram_kind(); }

  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<UnigramEncoder>(model_, *tokens_); }

 private:
  std::string json_text() const override { return unigram_json_text(parts_, form_, roles_.layout, roles_.special); }

  void make_model(const std::string& source) {
    model_.pieces = vocabulary_trie(source);
    model_.scores = form_.scores;
    model_.unknown_score = *std::min_element(form_.scores.begin(), form_.scores.end()) - unknown_penalty;
    model_.unknown = form_.unknown;
    model_.falls_back = form_.byte_fallback;
    model_.byte_ids = byte_token_ids();
    model_.marks = marks_of(form_.text, source);
  }

  UnigramForm form_;
  UnigramModel model_;
  std::unique_ptr<SearchedTokens> tokens_;
};

std::unique_ptr<Tokenizer> make_unigram(TokenizerParts parts, const std::string& source) {
  return std::make_unique<UnigramTokenizer>(std::move(parts), source);
}

}  // namespace

const TokenizerKind& unigram_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "unigram";
    made.model_type = "Unigram";
    made.title = "Unigram";
    made.usual_class = "";  // all of tokenizer.json counts
    made.sequence = roberta_sequence();
    made.own_files = {sentencepiece_bpe_name, spm_name};
    made.converts_files = true;
    made.continues_word = [](std::string_view token) { return !token.starts_with("\u2581"); };
    made.make = make_unigram;
    made.read_own_files = read_sentencepiece;
    made.read_config = read_special_token_names;
    made.read_json = read_unigram_json;
    made.class_difference = sentencepiece_class_difference;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
