// Tasks, as inputs, data and files know them. A task is one description here (src/tasks/NAME.cpp) and one objective,
// its head, loss and predictions (src/objectives/NAME.cpp); a line in src/tasks/registry.cpp and one in
// src/objectives/registry.cpp list it.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::tasks {

/// What a sequence is labelled with, and the dataset /labels of shards.
enum class Labels {
  none,     ///< nothing, no dataset: the targets are made of the text, so that shards of any task serve
  classes,  ///< a class: int32 (sequences), each a number of a label name
  values,   ///< a number: float32 (sequences), finite; of several columns float32 (sequences, columns), NaN: unknown
  sets,     ///< any number of label names: uint8 (sequences, label names), 1 for each that the sequence has, else 0
  spans,    ///< an answer within the sequence: int32 (sequences, 2), its first and its last token; (0, 0): none here
  words,    ///< a class for each word: int32 (words), each a number of a label name
  levels,   ///< relevance to a query, whose candidates are neighbours: int32 (sequences), 0 for none, then ascending
  scores,   ///< similarity of the texts of a row, which are neighbours: float32 (sequences), finite, the row's for each
            ///< of its texts; no dataset if the rows have no scores
};

/// Which tokens a head reads.
enum class LogitPositions {
  first_tokens,   ///< the first of each sequence
  masked_tokens,  ///< the masked tokens of a batch, which are its targets
  all_tokens,
  next_tokens,  ///< all but the last of each sequence; the target is the token after each
  words,        ///< the first token of each word with a label; in training others of it too, if the input asks for it
};

/// The type of a key that is a word, a number or a list of numbers. It has no default.
struct WordOrNumbers {
  const char* word;  ///< the only one that it takes
};

/// The type of a key that is one of several words.
struct Words {
  std::array<const char*, 4> all{};  ///< the default first; then null
  std::vector<std::string> names() const;
};

/// A key of the table [task] of bert_hpc's input that belongs to one task.
struct Key {
  const char* name;
  std::variant<double, bool, WordOrNumbers, Words> usual;  ///< its default, and so its type
  double low = 0, high = 1;                                ///< limits of a number, or of each number of a list
  bool low_open = true, high_open = true;                  ///< whether the limit is excluded
  bool usual_in_training_only = false;                     ///< other modes leave it unset
  bool optional = false;                                   ///< unset unless given: what `usual` holds is its type only
  const char* other = "";                                  ///< a list that it does not go with; "": none
};

struct Task {
  const char* name;  ///< in inputs and files
  Labels labels = Labels::none;
  const char* problem_type = "";  ///< of Transformers' config.json; "": none
  LogitPositions rows = LogitPositions::first_tokens;
  bool labels_pairs = false;     ///< beside masked tokens the first of each sequence: its label is of a pair of texts
  bool packs_rows = false;       ///< bert_hpc_prep may fill sequences with several rows of the text ([task] pack)
  bool embeds_texts = false;     ///< outputs are embeddings of texts, without a layer on top of the encoder
  bool predicts_samples = true;  ///< a prediction for each sample, which mode predict writes
  /// A training without test data writes predictions of the validation split.
  bool predicts_validation = false;
  int row_texts = 0;  ///< texts of each row that predictions need (data/row_texts.hpp)
  std::vector<const metrics::Family*> metrics;
  std::vector<Key> keys;

  /// Null if it has no such key.
  const Key* find_key(std::string_view key) const;
  bool masks_tokens() const { return rows == LogitPositions::masked_tokens; }
  bool predicts_next_tokens() const { return rows == LogitPositions::next_tokens; }
  bool predicts_tokens() const { return masks_tokens() || predicts_next_tokens(); }
  bool has_labels() const { return labels != Labels::none; }
  bool has_values() const { return labels == Labels::values; }
  bool has_label_sets() const { return labels == Labels::sets; }
  bool has_answers() const { return labels == Labels::spans; }
  /// Whether each word has a label.
  bool has_words() const { return labels == Labels::words; }
  bool ranks_candidates() const { return labels == Labels::levels; }
  /// Whether each text of a row is a sequence of its own.
  bool has_text_rows() const { return labels == Labels::scores; }
  /// Whether neighbouring sequences are a group: a query's candidates, or the texts of a row.
  bool has_groups() const { return ranks_candidates() || has_text_rows(); }
  bool has_label_names() const { return labels == Labels::classes || has_label_sets() || has_words(); }
  /// Whether so many outputs have names: those of labels, or of several label columns.
  bool names_outputs(std::size_t outputs) const {
    return !embeds_texts && !labels_pairs && (has_label_names() || (has_values() && outputs > 1));
  }
};

/// Keys of tasks that mask tokens.
std::vector<Key> masking_keys();

/// Every task, in the order in which messages list them.
const std::vector<const Task*>& all();
/// Null if there is none of that name.
const Task* find(std::string_view name);
/// The task of a valid input; classification where `name` is none.
const Task& named(std::string_view name);

std::vector<std::string> names();
/// A key with the tasks that have it. Of words, those of all these tasks are valid somewhere.
struct SharedKey {
  Key key;  ///< the first task's
  std::vector<const Task*> tasks;
  std::vector<std::string> words;  ///< of all its tasks, each once; empty for other types

  bool belongs_to(const Task& task) const;
};
/// The keys of all tasks by name, each once. Tasks that share a key state it with one type.
std::vector<SharedKey> keys();
/// The names of the tasks for which a fact holds: "classification", "a and b".
std::string names_where(bool (*holds)(const Task&));

/// Names of keys that code asks for.
inline constexpr const char* all_pieces_key = "all_pieces";
inline constexpr const char* mask_probability_key = "mask_probability";
inline constexpr const char* evaluation_mask_probability_key = "evaluation_mask_probability";
inline constexpr const char* mask_whole_words_key = "mask_whole_words";
inline constexpr const char* standardize_key = "standardize";
inline constexpr const char* class_weights_key = "class_weights";
inline constexpr const char* focal_gamma_key = "focal_gamma";
inline constexpr const char* max_answer_tokens_key = "max_answer_tokens";
inline constexpr const char* n_best_key = "n_best";
inline constexpr const char* no_answer_key = "no_answer";
inline constexpr const char* null_threshold_key = "null_threshold";
inline constexpr const char* answer_threshold_key = "answer_threshold";
inline constexpr const char* loss_key = "loss";
inline constexpr const char* listwise_loss = "listwise";        ///< a value of it
inline constexpr const char* concordance_loss = "concordance";  ///< another
inline constexpr const char* multiple_negatives_loss = "multiple_negatives";
inline constexpr const char* cosine_similarity_loss = "cosine_similarity";
inline constexpr const char* triplet_loss = "triplet";
inline constexpr const char* margin_mse_loss = "margin_mse";
inline constexpr const char* batch_hard_loss = "batch_hard_triplet";
inline constexpr const char* batch_hard_soft_margin_loss = "batch_hard_soft_margin_triplet";
inline constexpr const char* batch_semi_hard_loss = "batch_semi_hard_triplet";
inline constexpr const char* batch_all_loss = "batch_all_triplet";
inline constexpr const char* skip_duplicates_key = "skip_duplicates";
inline constexpr const char* similarity_key = "similarity";
inline constexpr const char* margin_key = "margin";
inline constexpr const char* pooling_key = "pooling";
inline constexpr const char* scale_key = "scale";
inline constexpr const char* symmetric_key = "symmetric";
inline constexpr const char* dimensions_key = "dimensions";
inline constexpr const char* skip_unanswerable_key = "skip_unanswerable";
inline constexpr const char* label_smoothing_key = "label_smoothing";
inline constexpr const char* threshold_key = "threshold";
inline constexpr const char* clip_predictions_key = "clip_predictions";
inline constexpr const char* range_key = "range";
inline constexpr const char* levels_key = "levels";

}  // namespace bert_hpc::tasks
