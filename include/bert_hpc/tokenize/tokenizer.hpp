// What every tokenizer does, and the kinds that there are. A kind is one file in src/tokenize and one line in
// tokenizer_kinds().
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/sequence_template.hpp"
#include "bert_hpc/tokenize/special_ids.hpp"
#include "bert_hpc/tokenize/text_form.hpp"

namespace bert_hpc::tokenize {

struct TokenizerDocument;
struct TokenizerJson;
struct TokenizerKind;
class VocabularyTrainer;

/// The characters [begin, end) of the encoded text that a token is made of, as Transformers' offset_mapping has them
/// (but where canonical decomposition reorders marks, which keep their own characters here). Characters are code
/// points; a malformed part of UTF-8 counts as one.
struct TokenSpan {
  std::int32_t begin = 0, end = 0;
  bool operator==(const TokenSpan&) const = default;
};

/// Text to ids; each thread has its own. Neither function allocates memory except by growing the caller's vectors.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  /// Appends the ids of `text` to `ids`, without the sequence's special tokens. `text` is UTF-8; each malformed part is
  /// read as U+FFFD. Special tokens that are spelled out in the text become their ids, as in Transformers.
  virtual void encode(std::string_view text, std::vector<std::int32_t>& ids) = 0;

  /// Appends the same ids, and the span of each token to `spans`. `text` has fewer than 2³¹ characters.
  virtual void encode_with_spans(std::string_view text, std::vector<std::int32_t>& ids,
                                 std::vector<TokenSpan>& spans) = 0;

  /// Appends the ids of a word as VocabularyTrainer::read() has numbered it.
  virtual void encode_word(std::string_view word, std::vector<std::int32_t>& ids) = 0;
};

/// Immutable; shared by threads.
class Tokenizer {
 public:
  struct File {
    std::string name, text;
  };

  virtual ~Tokenizer() = default;

  virtual const TokenizerKind& kind() const = 0;
  virtual const std::vector<std::string>& tokens() const = 0;  ///< by id, with those that were added
  virtual const SpecialIds& special_ids() const = 0;
  /// tokenize::vocabulary_hash(), by which vocabularies are compared.
  virtual const std::string& vocabulary_hash() const = 0;
  /// How it reads text, by the names that shards and inputs have for it.
  virtual std::vector<std::pair<std::string, bool>> settings() const = 0;
  /// This tokenizer must outlive the encoder.
  virtual std::unique_ptr<TextEncoder> encoder() const = 0;
  /// The files of a Hugging Face folder, from which Transformers reads the same tokenizer. `max_tokens`: longest
  /// sequence.
  virtual std::vector<File> files(std::int64_t max_tokens) const = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(tokens().size()); }
};

struct TokenizerKind {
  const char* name;        ///< [tokenizer] type: "wordpiece"
  const char* model_type;  ///< model.type of its tokenizer.json: "WordPiece"
  SequenceTemplate sequence;

  /// The tokenizer of a vocabulary. `vocabulary`: its lines, as load(), its trainer and its tokenizer.json give them;
  /// `added`: settled (settle_added_tokens()); `source`: their origin, for messages. Throws Error(data) where they are
  /// no vocabulary of this kind.
  std::unique_ptr<Tokenizer> (*make)(std::vector<std::string> vocabulary, std::vector<AddedToken> added,
                                     const TextForm& form, const std::string& source);
  /// The tokenizer of the vocabulary's own file (vocab.txt). Throws Error(files) if it cannot be read, else as make().
  std::unique_ptr<Tokenizer> (*load)(const std::string& file, const TextForm& form);
  std::unique_ptr<VocabularyTrainer> (*trainer)(const TextForm& form);
  /// Completes `result` by the sections of a tokenizer.json of this kind; see TokenizerJson.
  void (*read_json)(TokenizerDocument& document, TokenizerJson& result);
};

std::span<const TokenizerKind* const> tokenizer_kinds();
/// The kind of this name; null where there is none.
const TokenizerKind* find_tokenizer_kind(std::string_view name);
/// The kind with this model.type; null where there is none.
const TokenizerKind* find_tokenizer_model(std::string_view model_type);
/// "WordPiece": the model types that this version reads, for messages.
std::string readable_tokenizers();

}  // namespace bert_hpc::tokenize
