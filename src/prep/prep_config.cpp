// The keys of bert_hpc_prep's input, visited once for reading and for writing.
#include "bert_hpc/prep/prep_config.hpp"

#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/data/words.hpp"
#include "label_rules.hpp"

namespace bert_hpc::prep {
namespace {

using config::at_least;
using config::between;
using config::non_negative;
using config::one_of;

std::vector<std::string> tokenizer_names() {
  std::vector<std::string> names;
  for (const tokenize::TokenizerKind* kind : tokenize::tokenizer_kinds()) names.emplace_back(kind->name);
  return names;
}

void visit_switch(config::TomlKeys& keys, const char* name, tokenize::TokenizerSettings& settings) {
  const auto known = settings.find(name);
  std::optional<bool> value = known == settings.end() ? std::nullopt : std::optional(known->second);
  keys.key(name, value);
  if (value) settings[name] = *value;
}

/// A column, or a list of several, as label_columns has them.
void visit_label(config::TomlKeys& keys, SourceConfig& source) {
  std::vector<std::string> several;
  keys.key("label", source.label, several);
  keys.key("label_columns", source.label_columns);
  if (several.empty()) return;
  if (!source.label_columns.empty()) source.label = several.front();  // both are given, which is a problem
  if (source.label_columns.empty()) source.label_columns = std::move(several);
}

}  // namespace

void visit_keys(config::TomlKeys& keys, PrepConfig& c) {
  keys.table("source");
  keys.key("format", c.source.format, one_of(format_names())).required();
  keys.key("files", c.source.files);
  keys.key("validation_files", c.source.validation_files);
  keys.key("test_files", c.source.test_files);
  keys.key("text", c.source.text);
  keys.key("text_pair", c.source.text_pair);
  keys.key("negatives", c.source.negatives);
  keys.key("prompt", c.source.prompt);
  keys.key("prompt_pair", c.source.prompt_pair);
  visit_label(keys, c.source);
  keys.key("id", c.source.id);
  keys.key("query_id", c.source.query_id);
  keys.key("qrels", c.source.qrels);
  keys.key("sentence", c.source.sentence);
  keys.key("label_separator", c.source.label_separator);
  keys.key("decimal", c.source.decimal, one_of({".", ","}));
  keys.key("encoding", c.source.encoding);
  keys.key("header", c.source.header);
  keys.key("delimiter", c.source.delimiter);
  keys.key("quotes", c.source.quotes);
  keys.key("columns", c.source.columns, between(0, 1e6));
  keys.key("extra_columns", c.source.extra_columns);
  keys.key("unit", c.source.unit, one_of({"line", "paragraph", "file"}));

  keys.table("filter");
  keys.key("max_characters", c.filter.max_characters, non_negative());
  keys.key("min_rows_per_label", c.filter.min_rows_per_label, at_least(1));
  keys.key("most_frequent_labels", c.filter.most_frequent_labels, non_negative());
  keys.key("empty_pairs", c.filter.empty_pairs);
  keys.key("undecided", c.filter.undecided);
  keys.key("drop_missing", c.filter.drop_missing);
  keys.key("max_rejected", c.filter.max_rejected, between(0, 1));
  keys.key("sample", c.filter.sample, non_negative());

  keys.table("split");
  keys.key("train", c.split.train, between(0, 1e9));
  keys.key("validation", c.split.validation, between(0, 1e9));
  keys.key("test", c.split.test, between(0, 1e9));
  keys.key("seed", c.split.seed);
  keys.key("stratify", c.split.stratify);
  keys.key("group", c.split.group);

  keys.table("tokenizer");
  std::optional<std::string> type;
  if (!c.tokenizer.type.empty()) type = c.tokenizer.type;
  keys.key("type", type, one_of(tokenizer_names()));
  c.tokenizer.type = type.value_or("");
  keys.key("vocabulary", c.tokenizer.vocabulary);
  keys.key("train_size", c.tokenizer.train_size, between(0, 1 << 20));
  for (const tokenize::TokenizerKind* kind : tokenize::tokenizer_kinds()) {
    for (const tokenize::TokenizerKey& key : kind->keys) visit_switch(keys, key.name, c.tokenizer.settings);
  }
  keys.key("max_tokens", c.tokenizer.max_tokens, between(1, 1 << 20));
  keys.key("doc_stride", c.tokenizer.doc_stride, between(0, 1 << 20));
  keys.key("stride", c.tokenizer.stride, one_of({"overlap", "step"}));

  keys.table("task");
  keys.key("name", c.task.name, one_of(tasks::names())).required();
  keys.key("labels", c.task.labels);
  keys.key("pack", c.task.pack);
  keys.key("pairs", c.task.pairs, one_of({"next_sentence", "sentence_order"}));

  keys.table("output");
  keys.key("directory", c.output.directory).required();
  keys.key("shard_tokens", c.output.shard_tokens, between(1024, 1 << 30));
  keys.key("compression", c.output.compression, one_of({"none", "gzip"}));
}

bool PrepConfig::stratifies() const {
  return split.stratify && split.group.empty() && has_labels() && label_rules(kind().labels).can_stratify;
}

std::vector<std::string> PrepConfig::columns_of_labels() const {
  if (!wants_labels()) return {};
  if (!source.label_columns.empty()) return source.label_columns;
  return source.label.empty() ? std::vector<std::string>() : std::vector<std::string>{source.label};
}

std::string PrepConfig::label_column() const {
  const bool is_number = source.label.find_first_not_of("0123456789") == std::string::npos;
  return has_labels() && source.header && !is_number ? source.label : "";
}

bool PrepConfig::only_tests() const {
  return source.validation_files.empty() && (source.files.empty() || (split.train == 0 && split.validation == 0));
}

const tokenize::TokenizerKind& PrepConfig::tokenizer_kind() const {
  const tokenize::TokenizerKind* const kind = tokenize::find_tokenizer_kind(tokenizer.type);
  core::require(kind != nullptr, "[tokenizer] type names a kind that there is");
  return *kind;
}

const TextFormat& PrepConfig::text_format() const {
  const TextFormat* const format = find_text_format(source.format);
  core::require(format != nullptr, "[source] format names a format that there is");
  return *format;
}

RowFormat PrepConfig::row_format() const {
  const TextFormat& format = text_format();
  RowFormat row;
  row.format = &format;
  row.encoding = source.encoding;
  row.header = source.header;
  row.delimiter = source.delimiter ? source.delimiter->front() : format.delimiter;
  row.quotes = source.quotes.value_or(format.quotes);
  row.column_limit = static_cast<int>(source.columns);
  row.extra_columns = source.extra_columns;
  row.qrels = source.qrels;
  row.unit = source.unit == "file" ? TextUnit::file : source.unit == "paragraph" ? TextUnit::paragraph : TextUnit::line;
  if (has_labels() && label_rules(kind().labels).separates_names) {
    row.list_columns = {source.label};
    row.list_separator = source.label_separator;
    row.list_labels = task.labels.size();
  }
  if (has_labels() && kind().has_label_names()) row.named_column = source.label;
  if (has_words()) {
    row.list_columns = {source.text.front(), source.label};
    row.list_separator = data::word_end;
    row.list_ends = true;
    row.sentence = source.sentence;
  }
  return row;
}

std::string resolved_toml(PrepConfig config) {
  config::TomlWriter writer;
  visit_keys(writer, config);
  return writer.text();
}

}  // namespace bert_hpc::prep
