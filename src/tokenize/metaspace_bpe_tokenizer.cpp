// BPE with "▁" as one of the kinds of tokenizers: those of mmBERT, Gemma and Llama 2, from tokenizer.json.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/tokenize/metaspace_bpe.hpp"
#include "json_sections.hpp"
#include "metaspace_bpe_json.hpp"
#include "model_types.hpp"
#include "role_tokenizer.hpp"

namespace bert_hpc::tokenize {
namespace {

class MetaspaceBpeTokenizer final : public RoleTokenizer {
 public:
  MetaspaceBpeTokenizer(TokenizerParts parts, const std::string& source) : RoleTokenizer(std::move(parts)) {
    if (parts_.sections.empty()) {
      throw core::Error(core::ExitCode::data, source + ": this kind of BPE needs its tokenizer.json.");
    }
    form_ = metaspace_bpe_form_of(parts_.sections);
    roles_ = role_tokens(parts_, form_.text.single, form_.text.pair, source);
    if (roles_.special.unk < 0 && !form_.unknown.empty()) roles_.special.unk = roles_.id_of(form_.unknown);
    finish_roles();
    make_model(source);
    tokens_ = std::make_unique<SearchedTokens>(parts_.added, model_.marks);
  }

  const TokenizerKind& kind() const override { return metaspace_bpe_kind(); }

  std::unique_ptr<TextEncoder> encoder() const override {
    return std::make_unique<MetaspaceBpeEncoder>(model_, *tokens_);
  }

 private:
  std::string json_text() const override {
    return metaspace_bpe_json_text(parts_, form_, roles_.layout, roles_.special);
  }

  void make_model(const std::string& source) {
    model_.marks = marks_of(form_.text, source);
    if (!form_.unknown.empty()) model_.unknown = id_in_vocabulary(form_.unknown);
    model_.fuses_unknown = form_.fuse_unk;
    model_.falls_back = form_.byte_fallback;
    model_.byte_ids = byte_token_ids();
    set_merges(parts_.vocabulary, merge_ids(parts_.merges, roles_.ids, parts_.vocabulary.size(), source), model_);
    model_.has_whole_words = form_.ignore_merges;
    if (form_.ignore_merges) model_.whole_words = vocabulary_trie(source);
  }

  MetaspaceBpeForm form_;
  MetaspaceBpeModel model_;
  std::unique_ptr<SearchedTokens> tokens_;
};

std::unique_ptr<Tokenizer> make_metaspace_bpe(TokenizerParts parts, const std::string& source) {
  return std::make_unique<MetaspaceBpeTokenizer>(std::move(parts), source);
}

}  // namespace

const TokenizerKind& metaspace_bpe_kind() {
  static const TokenizerKind kind = [] {
    TokenizerKind made;
    made.name = "metaspace_bpe";
    made.model_type = metaspace_bpe_model;
    made.title = metaspace_bpe_model;
    made.usual_class = "";  // all of tokenizer.json counts
    made.sequence = roberta_sequence();
    made.continues_word = [](std::string_view token) {
      return !token.starts_with(word_mark) && token.find_first_of(" \t\n\r") != 0;
    };
    made.make = make_metaspace_bpe;
    made.read_config = read_special_token_names;
    made.read_json = read_metaspace_bpe_json;
    return made;
  }();
  return kind;
}

}  // namespace bert_hpc::tokenize
