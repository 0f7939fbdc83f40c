// What every tokenizer does, and the kinds that there are. A kind is two or three files in src/tokenize and one line in
// tokenizer_kinds(). Nothing outside this module depends on a kind: its switches have names, and its files and its
// specification are texts.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bert_hpc/tokenize/added_tokens.hpp"
#include "bert_hpc/tokenize/sequence_template.hpp"
#include "bert_hpc/tokenize/special_ids.hpp"

namespace bert_hpc::tokenize {

struct ConfigFile;
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

/// Values of a tokenizer's switches by the names of its kind's keys. A switch that is absent is not known.
using TokenizerSettings = std::map<std::string, bool>;

/// A switch of a kind: a key of [tokenizer] in bert_hpc_prep's input.
struct TokenizerKey {
  const char* name;               ///< in inputs and shards
  const char* hugging_face_name;  ///< in tokenizer_config.json
  bool usual;                     ///< value where neither files nor the input state it
  /// Value that the kind's class in Transformers takes where tokenizer_config.json does not state it; none: it depends.
  std::optional<bool> class_default{};
  bool is_choice = false;           ///< whether an input may choose another value than the vocabulary's files
  std::optional<bool> for_words{};  ///< value for text that is given in words, unless the input states it
};

/// How text becomes tokens: normalizer, pre-tokenizer, model with vocabulary, added tokens and template.
struct TokenizerSpec {
  std::string text;  ///< of a canonical tokenizer.json, which Transformers loads
  std::string hash;  ///< of all that decides on ids; two tokenizers with one hash give the same ids
};

/// The section of tokenizer.json in which two specifications differ, such as "pre_tokenizer"; "" if in none.
std::string differing_section(const std::string& a, const std::string& b);

/// What files, or a training, state of a tokenizer: all that a kind makes it from.
struct TokenizerParts {
  std::vector<std::string> vocabulary{};  ///< tokens by id, without added tokens behind them
  std::vector<std::string> merges{};      ///< of BPE: "left right", the most important first; else empty
  std::vector<AddedToken> added{};        ///< settled (settle_added_tokens())
  TokenizerSettings settings{};
  std::map<std::string, std::string> special_tokens{};  ///< by role's name, as tokenizer_config.json states them
  std::string sections{};  ///< what else the kind reads in its files, in its own form; "" for its usual tokenizer
};

/// Identifies a vocabulary with merges and added tokens: core::hash_of_lines() of them.
std::string vocabulary_hash(const TokenizerParts& parts);

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
  virtual const SequenceTemplate& sequence() const = 0;
  /// Id of the token behind each text that a model learns to continue: eos_token, or of older kinds that of the role
  /// "sep". -1 if the tokenizer has none.
  virtual std::int32_t text_end() const { return special_ids().sep; }
  /// vocabulary_hash() of its parts, by which vocabularies are compared.
  virtual const std::string& vocabulary_hash() const = 0;
  virtual TokenizerSettings settings() const = 0;  ///< of all keys of its kind
  virtual TokenizerSpec spec() const = 0;
  /// This tokenizer must outlive the encoder.
  virtual std::unique_ptr<TextEncoder> encoder() const = 0;
  /// The files of a Hugging Face folder, from which Transformers reads the same tokenizer. `max_tokens`: longest
  /// sequence.
  virtual std::vector<File> files(std::int64_t max_tokens) const = 0;

  std::int32_t size() const { return static_cast<std::int32_t>(tokens().size()); }
};

struct TokenizerKind {
  const char* name = "";         ///< [tokenizer] type: "wordpiece"
  const char* model_type = "";   ///< model.type of its tokenizer.json, "WordPiece"; longer if kinds share a type
  const char* title = "";        ///< for messages: "WordPiece"
  const char* usual_class = "";  ///< its class in Transformers, for a folder that does not name one
  /// model_type of the models that have it, where own_files are named as those of another kind: a folder's are of this
  /// kind if tokenizer_config.json names usual_class, or config.json this model_type; null: own_files tell the kind.
  const char* model_family = nullptr;
  SequenceTemplate sequence;  ///< of a tokenizer whose vocabulary is trained here
  std::vector<TokenizerKey> keys;
  bool knows_all_text = false;         ///< whether no text has unknown tokens
  std::vector<const char*> own_files;  ///< names of the files that hold its vocabulary beside tokenizer.json
  /// Names what a text is instead of the file `name` of own_files, the rest of "FILE: is …"; "" if it seems to be it.
  /// Null: such files are not copied with a model (copied_tokenizer_files()).
  std::string (*own_file_problem)(const std::string& name, const std::string& text) = nullptr;
  /// Whether own_files become what a tokenizer.json would hold, added tokens included: they are read only without one,
  /// and each of them holds a whole vocabulary.
  bool converts_files = false;
  /// Special tokens that the vocabulary of such a tokenizer has, so that they count as no added tokens; null: none.
  std::span<const char* const> (*implied_tokens)(const TokenizerParts& parts) = nullptr;

  /// Adds the switches that follow from known ones; null: none does.
  void (*complete)(TokenizerSettings& known) = nullptr;
  /// Why these switches, all known, contradict each other: the key's name and a sentence about it; or "".
  std::pair<std::string, std::string> (*contradiction)(const TokenizerSettings& settings) = nullptr;
  /// A warning if values that neither files nor the input state (`assumed`, by name) seem to be wrong for this
  /// vocabulary; or "".
  std::string (*doubt)(const std::vector<std::string>& vocabulary, const TokenizerSettings& assumed) = nullptr;

  /// Whether a token with this spelling continues the word of the token before it, if there is one.
  bool (*continues_word)(std::string_view token) = nullptr;
  /// The tokenizer of these parts, whose switches are `usual` where absent. `source`: their origin, for messages.
  /// Throws Error(data) if they make no tokenizer of this kind.
  std::unique_ptr<Tokenizer> (*make)(TokenizerParts parts, const std::string& source) = nullptr;
  /// `ends_texts`: texts are to end in a token instead of standing in a template, for models that continue them.
  std::unique_ptr<VocabularyTrainer> (*trainer)(const TokenizerSettings& settings, bool ends_texts) = nullptr;
  /// Reads `own_files` into `parts`, or states problems, each with its file. `file`: the path of the first of them, or
  /// with converts_files of any; `config`: the folder's tokenizer_config.json. Throws Error(files) or Error(data).
  void (*read_own_files)(const std::string& file, const ConfigFile& config, TokenizerParts& parts,
                         std::vector<std::string>& problems) = nullptr;
  /// The parts of a vocabulary in one file of any name; null: this kind has no such file.
  TokenizerParts (*read_file)(const std::string& path) = nullptr;
  /// Takes over what tokenizer_config.json states beside switches and added tokens.
  void (*read_config)(const ConfigFile& config, TokenizerParts& parts, std::vector<std::string>& problems) = nullptr;
  /// Completes `result` by the sections of a tokenizer.json of this kind; see TokenizerJson.
  void (*read_json)(TokenizerDocument& document, TokenizerJson& result) = nullptr;
  /// A warning if the class that Transformers reads `folder` with leaves out what its tokenizer.json states, of which
  /// `parts` are; or "". Null: there is no such class.
  std::string (*class_difference)(const std::string& folder, const ConfigFile& config,
                                  const TokenizerParts& parts) = nullptr;
};

std::span<const TokenizerKind* const> tokenizer_kinds();
/// The kind of this name, or the first one if it is empty; null if there is none.
const TokenizerKind* find_tokenizer_kind(std::string_view name);
/// The special tokens that the vocabulary of a tokenizer of these parts has, and that count as no added tokens.
std::span<const char* const> implied_tokens(const TokenizerKind& kind, const TokenizerParts& parts);
/// The kind with this model_type; null if there is none.
const TokenizerKind* find_tokenizer_model(std::string_view model_type);
/// "WordPiece": the tokenizers that this version reads, for messages.
std::string readable_tokenizers();

/// By id, whether a token continues the word of the token before it; added tokens never do. `text`: of a specification,
/// from `source`. Throws Error(data) if it is none.
std::vector<bool> continued_tokens(const std::string& text, const std::string& source);

/// `known` with what follows from it.
TokenizerSettings completed(const TokenizerKind& kind, TokenizerSettings known);
/// The same with the usual values of what does not follow.
TokenizerSettings resolved(const TokenizerKind& kind, TokenizerSettings known);
/// The first key of `kind` whose value both know, completed, and in which they differ; null if there is none.
const TokenizerKey* first_difference(const TokenizerKind& kind, const TokenizerSettings& a, const TokenizerSettings& b);

}  // namespace bert_hpc::tokenize
