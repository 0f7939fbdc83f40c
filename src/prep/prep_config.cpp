// The keys of bert_hpc_prep's input, visited once for reading and for writing.
#include "bert_hpc/prep/prep_config.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/prep/word_rows.hpp"
#include "input_rules.hpp"
#include "row_labels.hpp"
#include "split_rules.hpp"

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

  keys.table("output");
  keys.key("directory", c.output.directory).required();
  keys.key("shard_tokens", c.output.shard_tokens, between(1024, 1 << 30));
  keys.key("compression", c.output.compression, one_of({"none", "gzip"}));
}

namespace {

constexpr std::int64_t usual_overlap = 128, usual_windows = 3;  // Transformers' run_qa.py: 128 of 384 tokens

/// So that no answer and no word is cut off, where the input does not say.
void complete_windows(PrepConfig& c) {
  if (!c.tokenizer.doc_stride) {
    c.tokenizer.doc_stride = std::min(usual_overlap, c.tokenizer.max_tokens / usual_windows);
  }
}

/// The columns of texts in words, where the input does not say.
void complete_words(PrepConfig& c, const config::TomlReader& reader) {
  if (!reader.given("source.text")) c.source.text = {"tokens"};
  if (!reader.given("source.label")) c.source.label = "tags";
}

/// The names of a set that has a column for each: in the order of the columns, also those that no row has. One column
/// of numbers is a label as usual.
void complete_label_columns(PrepConfig& c, const config::TomlReader& reader) {
  if (!reader.given("source.label")) c.source.label.clear();
  if (c.has_value_columns()) {
    const bool is_one = c.source.label_columns.size() == 1 && c.source.label.empty();
    if (is_one) c.source.label = std::exchange(c.source.label_columns, {}).front();
    return;
  }
  std::vector<std::string> names = c.source.label_columns;
  std::sort(names.begin(), names.end());
  const bool each_once = std::adjacent_find(names.begin(), names.end()) == names.end();
  if (!reader.given("task.labels") && each_once) c.task.labels = c.source.label_columns;
}

/// The columns of questions, and windows, where the input does not say.
void complete_answers(PrepConfig& c, const config::TomlReader& reader) {
  if (!reader.given("source.text")) c.source.text = {"question"};
  if (!reader.given("source.text_pair")) c.source.text_pair = {"context"};
  if (!reader.given("source.label")) c.source.label = "answers";
  if (!reader.given("source.id")) c.source.id = "id";
}

/// The columns of queries and passages where the input does not say, and what stays in one split.
void complete_candidates(PrepConfig& c, const TextFormat& format, const config::TomlReader& reader) {
  const RankingColumns& columns = format.ranking;
  if (!reader.given("source.text")) c.source.text = {columns.query};
  if (!reader.given("source.text_pair")) c.source.text_pair = {columns.passage};
  if (!reader.given("source.query_id")) c.source.query_id = columns.query_id;
  if (!reader.given("source.id")) c.source.id = columns.passage_id;
  if (reader.given("split.group") || !c.split.group.empty()) return;
  c.split.group = !c.source.query_id.empty() ? c.source.query_id : c.source.text.size() == 1 ? c.source.text[0] : "";
}

/// Sets the columns of texts that are compared if the input does not say them; rows may have a score. One column is
/// enough for a corpus.
void complete_texts(PrepConfig& c, const config::TomlReader& reader) {
  if (!reader.given("source.text")) {
    c.source.text = {"anchor"};
    if (!reader.given("source.text_pair")) c.source.text_pair = {"positive"};
  }
  if (!reader.given("source.label")) c.source.label.clear();
}

ReadPrepConfig read(config::TomlReader& reader, const std::string& name) {
  config::refuse_input_of("bert_hpc", "run", "source", reader, name);
  PrepConfig c;
  visit_keys(reader, c);
  const TextFormat* const format = find_text_format(c.source.format);
  if (format != nullptr && !reader.given("split.group")) c.split.group = format->group;
  if (c.has_answers()) complete_answers(c, reader);
  if (c.has_words()) complete_words(c, reader);
  if (c.has_answers() || c.has_words()) complete_windows(c);
  if (c.has_candidates() && format != nullptr) complete_candidates(c, *format, reader);
  if (c.parts_texts()) complete_texts(c, reader);
  if (!c.source.label_columns.empty()) complete_label_columns(c, reader);
  complete_split(c, reader);
  if ((c.has_pairs() || c.tokenizer.doc_stride) && !reader.given("task.pack")) c.task.pack = false;
  c.source.label_given = reader.given("source.label") || !c.source.label_columns.empty();
  if (!reader.given("source.label_separator")) {
    c.source.label_separator = label_rules(c.kind().labels).usual_separator;
  }
  const bool no_labels = format != nullptr && !format->has_columns;
  if (c.wants_labels() && !c.source.label_given && no_labels && c.only_tests()) c.source.label.clear();
  if (c.wants_labels() && !c.has_labels()) {
    if (!reader.given("split.train")) c.split.train = 0;
    if (!reader.given("split.validation")) c.split.validation = 0;
    if (!reader.given("split.test")) c.split.test = 1;
  }
  check_input(c, reader);
  c.task.pack = c.packs();
  return {std::move(c), reader.problems()};
}

}  // namespace

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
  if (has_words()) {
    row.list_columns = {source.text.front(), source.label};
    row.list_separator = word_end;
    row.list_ends = true;
    row.sentence = source.sentence;
  }
  return row;
}

ReadPrepConfig read_with_problems(const std::string& path, const std::vector<std::string>& overrides) {
  config::TomlReader reader(path, overrides);
  return read(reader, path);
}

PrepConfig read_prep_config(const std::string& path, const std::vector<std::string>& overrides) {
  return parse_prep_config(config::read_input_text(path), path, overrides);
}

PrepConfig parse_prep_config(std::string_view text, const std::string& name,
                             const std::vector<std::string>& overrides) {
  config::TomlReader reader(text, name, overrides);
  ReadPrepConfig given = read(reader, name);
  config::throw_if_any(given.problems);
  return std::move(given.config);
}

std::string resolved_toml(PrepConfig config) {
  config::TomlWriter writer;
  visit_keys(writer, config);
  return writer.text();
}

}  // namespace bert_hpc::prep
