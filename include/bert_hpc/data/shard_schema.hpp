// Names and types of a shard: tokenized text ready for training, written by bert_hpc_prep and read by bert_hpc.
//
// A shard is an HDF5 file of format version 1.10 behind a user block of 512 bytes that begins with
// "bert_hpc shard 1\nbytes N\ncrc32 XXXXXXXX\n": the checksum of everything behind the block, verified before HDF5
// opens the file (io/checksummed_file.hpp), because HDF5 itself can be led astray by one flipped bit. Sequences lie one
// after the other without padding; what a sequence is labelled with depends on the task.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::data {

/// The value of the attribute "schema".
inline constexpr const char* shard_schema = "bert_hpc shard 2";
inline constexpr std::int64_t shard_user_block = 512;  ///< bytes

/// Ids below this one fit into 16 bits.
inline constexpr std::int64_t narrow_ids = 65536;
/// Whether there are others.
constexpr bool is_wide(std::int64_t vocabulary_size) {
  return vocabulary_size > narrow_ids;
}

/// Longest label names and tokenizer settings that a reader accepts, bytes.
inline constexpr std::int64_t shard_max_text = 16 << 20;

namespace shard_dataset {
/// uint16 (tokens), or int32 where is_wide(vocabulary size) and in shards of version 0.1.0: ids, special tokens
/// included.
inline constexpr const char* input_ids = "/input_ids";
inline constexpr const char* offsets = "/offsets";  ///< int64 (sequences + 1): from 0, ascending, to tokens
inline constexpr const char* token_type_ids = "/token_type_ids";  ///< uint8 (tokens): only where there are text pairs
/// As tasks::Labels says; absent where labels are unknown.
inline constexpr const char* labels = "/labels";
inline constexpr const char* source_index = "/source_index";  ///< int64 (sequences): row in the source text
inline constexpr const char* tokenizer = "/tokenizer";        ///< uint8 (bytes): TokenizerSpec::text; may be absent

// Of tasks with answers (tasks::Labels::spans):
/// int32 (sequences, 2): the tokens [begin, end) of the text that answers are part of.
inline constexpr const char* context_tokens = "/context_tokens";
// And where predictions are made of the shard, which bert_hpc_prep expects of validation and test:
/// int32 (tokens, 2): characters [begin, end) of the whole context that a token is made of; (-1, -1) elsewhere.
inline constexpr const char* token_characters = "/token_characters";

// Of tasks with classes of words (tasks::Labels::words):
/// int32 (words, 2): the tokens [begin, end) of its sequence that a word is made of, ascending; [t, t) if the unknown
/// token t stands for a word without characters. A word that lies in several windows of a row is listed in one of them.
inline constexpr const char* word_tokens = "/word_tokens";
inline constexpr const char* word_offsets = "/word_offsets";  ///< int64 (sequences + 1): from 0, ascending, to words

// Of tasks whose predictions need texts (tasks::Task::row_texts), where predictions are made of the shard:
/// uint8 (bytes): UTF-8 of each row's texts. A row is a run of sequences with one source index. Texts of tasks with
/// answers: the question's id, its context, its answers as a JSON array of strings ("": unknown). Of tasks with classes
/// of words: the words, each with U+001F behind it.
inline constexpr const char* texts = "/texts";
inline constexpr const char* text_offsets = "/text_offsets";  ///< int64 (row_texts · rows + 1): from 0, ascending

// Dataset of tasks with groups (tasks::Task::has_groups()):
/// int64 (groups + 1): from 0, ascending; group g is sequences [groups[g], groups[g + 1]): the candidates of a query
/// (tasks::Labels::levels), or the texts of a row, its anchor first, then its positive (tasks::Labels::scores). Texts
/// of a candidate are the query's id, the levels of what is relevant to the query and no candidate (a JSON array of
/// numbers, of its first candidate; "": none), and the candidate's id.
inline constexpr const char* groups = "/groups";
}  // namespace shard_dataset

namespace shard_attribute {                                        // of the root group
inline constexpr const char* schema = "schema";                    ///< text: shard_schema
inline constexpr const char* task = "task";                        ///< text: the name of one of tasks::all()
inline constexpr const char* vocabulary_hash = "vocabulary_hash";  ///< text
inline constexpr const char* vocabulary_size = "vocabulary_size";  ///< int64
inline constexpr const char* label_names = "label_names";          ///< text: JSON array of strings
inline constexpr const char* label_column = "label_column";        ///< text: where the labels come from; may be absent
inline constexpr const char* tokenizer = "tokenizer";              ///< text: JSON object of settings
inline constexpr const char* tokenizer_hash = "tokenizer_hash";    ///< text: TokenizerSpec::hash; may be absent
inline constexpr const char* sequences = "sequences";              ///< int64
inline constexpr const char* tokens = "tokens";                    ///< int64
inline constexpr const char* max_length = "max_length";            ///< int64: tokens of the longest sequence
inline constexpr const char* unanswerable = "unanswerable";        ///< int64: tasks with answers, questions without one
}  // namespace shard_attribute

/// Key of a special token's id in the tokenizer's JSON object: "cls_id", … Its "type" is the kind's name, and its
/// booleans are the kind's switches. Foreign shards may state neither, nor unk_id.
inline std::string special_id_key(const tokenize::SpecialRole& role) {
  return std::string(role.name) + "_id";
}

using tokenize::SpecialIds;

/// The root attributes of a shard.
struct ShardInfo {
  const tasks::Task* task = &tasks::named({});
  std::string vocabulary_hash;
  std::int64_t vocabulary_size = 0;
  std::vector<std::string> label_names;  ///< name of label c, or of label column c of several; else empty
  std::string label_column;              ///< name of the source's column with the labels; "" if it has none
  std::string tokenizer;                 ///< JSON object text
  std::string tokenizer_hash;            ///< "" if not known
  std::int64_t sequences = 0;
  std::int64_t tokens = 0;
  std::int64_t max_length = 0;
  std::int64_t columns = 0;  ///< of files of embeddings (embedding_shard.hpp), whose tokens are rows; 0: token ids
  std::string embedded;      ///< the encoder of embeddings and what of it they are
  std::string row_type;      ///< type in which embeddings are stored: "fp32", "fp16", "bf16" or "int8"

  /// Of tasks with labels: are they known? Else /labels is absent and label_names is empty: the
  /// sequences can be predicted, and neither trained nor evaluated on.
  bool labelled = true;
  /// Of tasks whose predictions need the texts of rows: does the shard hold them, and the characters of answers?
  bool has_texts = false;
  /// Of tasks with answers: questions of all splits that have none; 0 also where that is unknown.
  std::int64_t unanswerable = 0;

  /// For core/message.hpp: all but the task.
  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.vocabulary_hash, self.vocabulary_size, self.label_names, self.label_column, self.tokenizer,
                    self.tokenizer_hash, self.sequences, self.tokens, self.max_length, self.columns, self.embedded,
                    self.row_type, self.labelled, self.has_texts, self.unanswerable);
  }

  double mean_length() const { return static_cast<double>(tokens) / static_cast<double>(sequences); }  ///< tokens
};

/// JSON array text of label names (the attribute's value).
std::string label_names_to_json(const std::vector<std::string>& names);
/// Label names of JSON text; throws Error(data) with `file` in the message if it is no array of strings.
std::vector<std::string> label_names_from_json(const std::string& json, const std::string& file);
struct ShardTokenizer {
  const tokenize::TokenizerKind* kind;  ///< the first one where the shard does not state it; null: an unknown one
  tokenize::TokenizerSettings settings;
};
/// How the text was read, as far as the tokenizer's JSON text states it; throws as special_ids_from_json().
ShardTokenizer shard_tokenizer(const std::string& json, const std::string& file);
/// Most tokens of a sequence that the tokenizer's JSON text allows; 0 if it does not say. Throws as
/// special_ids_from_json().
std::int64_t max_tokens_from_json(const std::string& json, const std::string& file);
/// Texts that were read before the texts of every row; "" where there are none.
struct ShardPrompts {
  std::string text;       ///< before first texts
  std::string text_pair;  ///< before second texts and negatives
};
inline constexpr const char *prompt_key = "prompt",
                            *prompt_pair_key = "prompt_pair";  ///< members of tokenizer JSON text
/// The prompts of tokenizer JSON text; throws as special_ids_from_json().
ShardPrompts prompts_from_json(const std::string& json, const std::string& file);
/// Id of the token that ends a text, of tokenizer JSON text; -1 if there is none. Throws as special_ids_from_json().
std::int32_t text_end_from_json(const std::string& json, const std::string& file);
inline constexpr const char* text_end_key = "text_end_id";  ///< its member
/// Special ids of tokenizer JSON text; throws Error(data) with `file` in the message if it is malformed.
SpecialIds special_ids_from_json(const std::string& json, const std::string& file);

}  // namespace bert_hpc::data
