// The input of bert_hpc_prep: plain values with their defaults, and what follows from them. read_config.hpp fills them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/config/toml_reader.hpp"
#include "bert_hpc/prep/document_pairs.hpp"
#include "bert_hpc/prep/readers/row_reader.hpp"
#include "bert_hpc/tasks/task.hpp"
#include "bert_hpc/tokenize/tokenizer.hpp"

namespace bert_hpc::prep {

struct SourceConfig {
  std::string format;                                     ///< a name of text_formats()
  std::vector<std::string> files;                         ///< divided by [split]
  std::vector<std::string> validation_files, test_files;  ///< go whole into their split
  std::vector<std::string> text{"text"};                  ///< columns, joined by a blank
  std::vector<std::string> text_pair;                     ///< columns of the second text; none: single texts
  std::vector<std::string> negatives;                     ///< columns of texts that do not belong to a row's anchor
  std::string prompt;                                     ///< read before each first text
  std::string prompt_pair;                                ///< read before each second text and each negative
  std::string label = "label";  ///< column; empty: no labels, for text that is only to be predicted
  /// Several label columns; then `label` is empty. In a set each holds 0 or 1 and is a label name, of a regression each
  /// holds a number.
  std::vector<std::string> label_columns;
  std::string id{};          ///< column with each row's name in predictions; empty: none
  std::string query_id{};    ///< column with the id of a row's query; empty: rows of one text are of one query
  std::string qrels{};       ///< file of judgements, of formats whose rows have no labels; empty: none
  std::string sentence{};    ///< column with the sentence of a word a row; empty: rows are sentences
  bool label_given = false;  ///< no key: whether the column was named; else text may do without it (find_labels())
  /// A label ends before it: ":" makes "DESC:manner" "DESC"; of a set of names it stands between them. Empty: whole.
  std::string label_separator;
  std::string decimal = ".";       ///< character before a number's fraction: "." | ","
  std::string encoding = "utf-8";  ///< a name that is known; a byte order mark comes before it
  bool header = true;
  std::optional<std::string> delimiter;  ///< default: comma or tab, by format
  std::optional<bool> quotes;            ///< default: csv yes, tsv no
  std::int64_t columns = 0;              ///< the last of so many takes the rest of its row; 0: no limit
  bool extra_columns = false;            ///< rows may have more columns than the header; those are not read
  std::string unit = "line";             ///< of text: "line" | "paragraph"
};

struct FilterConfig {
  std::int64_t max_characters = 0;  ///< of a row's texts together; 0: any
  std::int64_t min_rows_per_label = 1;
  std::int64_t most_frequent_labels = 0;  ///< keep rows of so many labels; 0: all
  bool empty_pairs = false;               ///< rows with an empty second text are kept
  bool undecided = false;                 ///< "-" among labels of natural language inference is a class
  bool drop_missing = true;               ///< rows without text or label are rejected; false: they are an error
  double max_rejected = 0.5;              ///< share of broken rows that is accepted: is_broken()
  double sample = 0;                      ///< rows of `files` to draw: a share up to 1, else a number; 0: all
};

struct SplitConfig {
  double train = 0.8, validation = 0.1, test = 0.1;  ///< sum to 1 but for rounding; 0 where others are given
  std::int64_t seed = 1;
  bool stratify = true;  ///< each class is divided by the same fractions; regression: each tenth of the values
  std::string group{};   ///< column whose equal values stay in one split; empty: none. Default: TextFormat::group
};

struct TokenizerConfig {
  std::string type;             ///< a name of tokenizer_kinds(); "": that of the vocabulary's files
  std::string vocabulary;       ///< a vocabulary file, a tokenizer.json, or a folder that has either
  std::int64_t train_size = 0;  ///< tokens of a vocabulary trained on the training split; one of the two is given
  /// Switches of the kind. Absent ones are as the vocabulary's folder says, else usual (settle()).
  tokenize::TokenizerSettings settings;
  std::string conflict;  ///< no key: a warning if the files of the vocabulary contradict each other; or ""
  std::string note;      ///< no key: what was decided for text in words, a line; or ""
  tokenize::TokenizerSettings assumed;  ///< no key: switches that neither the input nor the vocabulary's folder states
  std::int64_t max_tokens = 512;        ///< of a sequence, special tokens included
  bool max_tokens_given = false;        ///< no key: else texts of embeddings are cut as the folder's model says
  /// Longer texts become windows that overlap by so many tokens (stride "overlap", as in Transformers), or begin so
  /// many tokens apart (stride "step", as in Google's BERT). None: they are truncated.
  std::optional<std::int64_t> doc_stride;
  std::string stride = "overlap";

  /// Tokens that a window has room for at least, so that windows leave no gap. Only with doc_stride.
  std::int64_t least_window() const { return *doc_stride + (stride == "step" ? 0 : 1); }
};

struct TaskConfig {
  std::string name;                  ///< one of tasks::names()
  std::vector<std::string> labels;   ///< their names in the order of their numbers; empty: all, sorted
  std::optional<std::string> pairs;  ///< "next_sentence", "sentence_order"; set if pairs are made of documents
  bool pack = true;                  ///< rows of a split follow each other until a sequence is full; if the task may
};

struct OutputConfig {
  std::string directory;
  std::int64_t shard_tokens = 16 << 20;  ///< shards of a split have about equally many tokens, at most about so many
  std::string compression = "none";      ///< "none", "gzip"
};

struct PrepConfig {
  SourceConfig source;
  FilterConfig filter;
  SplitConfig split;
  TokenizerConfig tokenizer;
  TaskConfig task;
  OutputConfig output;

  const tasks::Task& kind() const { return tasks::named(task.name); }
  /// Whether the task learns from labels.
  bool wants_labels() const {
    const bool may_lack = kind().has_text_rows() && source.label.empty() && source.label_columns.empty();
    return kind().has_labels() && !may_lack && !pairs_documents();
  }
  /// Whether it does and the text has them.
  bool has_labels() const { return wants_labels() && (!source.label.empty() || !source.label_columns.empty()); }
  /// Whether rows have several numbers as labels.
  bool has_value_columns() const { return kind().has_values() && !source.label_columns.empty(); }
  /// Kind of the rows' labels; none if rows have no labels.
  tasks::Labels labels() const { return has_labels() ? kind().labels : tasks::Labels::none; }
  /// The columns that name a row's label: one, or several for a set; none if rows have no labels.
  std::vector<std::string> columns_of_labels() const;
  /// The name of the column with the labels; "" if there is none, or if the column has a number but no name.
  std::string label_column() const;
  /// Whether all rows are for the test split.
  bool only_tests() const;
  /// Whether the split keeps the shares of labels. It does not if it divides whole groups.
  bool stratifies() const;
  /// Whether the label is a part of the second text.
  bool has_answers() const { return kind().has_answers(); }
  /// Whether the text is given in words, each with a label.
  bool has_words() const { return kind().has_words(); }
  /// Whether rows are candidates of queries.
  bool has_candidates() const { return kind().ranks_candidates(); }
  bool has_second_text() const { return !source.text_pair.empty(); }
  /// Whether each text of a row is a sequence of its own. Else a sequence has both texts of a pair.
  bool parts_texts() const { return kind().has_text_rows(); }
  bool has_pairs() const { return (has_second_text() && !parts_texts()) || pairs_documents(); }
  /// Whether rows are documents, of whose lines pairs are made (prep/document_pairs.hpp).
  bool pairs_documents() const { return kind().labels_pairs && !has_second_text(); }
  PairKind pair_kind() const {
    return task.pairs == "sentence_order" ? PairKind::sentence_order : PairKind::next_sentence;
  }
  /// Whether shards name the rows of such texts, for searches.
  bool names_rows() const { return parts_texts() && !source.id.empty(); }
  /// Whether shards of validation and test data hold texts of rows (data/row_texts.hpp).
  bool stores_texts() const { return kind().row_texts > 0 || names_rows(); }
  /// The kind of tokenizer that [tokenizer] type names; the first one if it names none.
  const tokenize::TokenizerKind& tokenizer_kind() const;
  bool packs() const { return kind().packs_rows && task.pack; }
  /// Whether each text ends in a token (tokenize::Tokenizer::text_end()), without other special tokens around it.
  bool ends_texts() const { return kind().predicts_next_tokens(); }
  /// Template of sequences; `usual`: the tokenizer's.
  tokenize::SequenceTemplate sequence(const tokenize::SequenceTemplate& usual) const {
    return ends_texts() ? tokenize::SequenceTemplate() : usual;
  }
  /// The format that [source] format names. Throws Error(internal) if there is none of that name.
  const TextFormat& text_format() const;
  RowFormat row_format() const;
  /// Whether texts are ids of tokens.
  bool holds_ids() const {
    const TextFormat* const format = find_text_format(source.format);
    return format != nullptr && format->holds_ids;
  }
};

/// Visits every key, table by table.
void visit_keys(config::TomlKeys& keys, PrepConfig& config);

/// The values in use as TOML, which reads back to the same.
std::string resolved_toml(PrepConfig config);

}  // namespace bert_hpc::prep
