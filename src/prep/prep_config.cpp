// The keys of bert_hpc_prep's input, visited once for reading and for writing, and the rules between them.
#include "bert_hpc/prep/prep_config.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
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

}  // namespace

void visit_keys(config::TomlKeys& keys, PrepConfig& c) {
  keys.table("source");
  keys.key("format", c.source.format, one_of(format_names())).required();
  keys.key("files", c.source.files);
  keys.key("validation_files", c.source.validation_files);
  keys.key("test_files", c.source.test_files);
  keys.key("text", c.source.text);
  keys.key("text_pair", c.source.text_pair);
  keys.key("label", c.source.label);
  keys.key("label_separator", c.source.label_separator);
  keys.key("encoding", c.source.encoding, one_of({"utf-8", "latin-1"}));
  keys.key("header", c.source.header);
  keys.key("delimiter", c.source.delimiter);
  keys.key("quotes", c.source.quotes);
  keys.key("columns", c.source.columns, between(0, 1e6));
  keys.key("extra_columns", c.source.extra_columns);
  keys.key("unit", c.source.unit, one_of({"line", "paragraph"}));

  keys.table("filter");
  keys.key("max_characters", c.filter.max_characters, non_negative());
  keys.key("min_rows_per_label", c.filter.min_rows_per_label, at_least(1));
  keys.key("most_frequent_labels", c.filter.most_frequent_labels, non_negative());
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
  keys.key("type", c.tokenizer.type, one_of(tokenizer_names()));
  keys.key("vocabulary", c.tokenizer.vocabulary);
  keys.key("train_size", c.tokenizer.train_size, between(0, 1 << 20));
  for (const data::TextSetting& setting : data::text_settings) keys.key(setting.name, c.tokenizer.text.*setting.value);
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
}

namespace {

constexpr const char* only_predicted = ", or [source] label = \"\" for text without labels, for mode predict.";

/// Keys that the format does not take.
void check_format(const PrepConfig& c, config::TomlReader& reader) {
  const TextFormat* const format = find_text_format(c.source.format);
  if (format == nullptr) return;  // which is a problem of its own
  const auto only = [&](bool TextFormat::*takes, bool given, const std::string& key) {
    if (format->*takes || !given) return;
    const std::vector<std::string> names = format_names(takes);
    complain(reader, "source." + key,
             (names.size() == 1 ? "is for format " : "is for formats ") + core::listed(names, "and", false) +
                 ", and the format is " + format->name + ".");
  };
  only(&TextFormat::takes_table_keys, c.source.delimiter.has_value(), "delimiter");
  only(&TextFormat::takes_table_keys, c.source.quotes.has_value(), "quotes");
  only(&TextFormat::takes_table_keys, c.source.columns != 0, "columns");
  only(&TextFormat::takes_table_keys, !c.source.header, "header");
  only(&TextFormat::takes_table_keys, c.source.extra_columns, "extra_columns");
  only(&TextFormat::takes_unit, c.source.unit != "line", "unit");
  if (format->takes_table_keys && c.source.extra_columns && !c.source.header) {
    complain(reader, "source.extra_columns",
             "needs a header, which gives the number of columns: it has no meaning without a header.");
  }
  if (*format->only_utf8 != '\0' && c.source.encoding != "utf-8") {
    complain(reader, "source.encoding",
             std::string("must be \"utf-8\" for format ") + format->name + ", " + format->only_utf8 + ".");
  }
  if (format->has_columns) return;
  if (c.has_labels() && !c.task.name.empty()) {
    complain(reader, "task.name",
             "\"" + c.task.name + "\" needs labels, and " + format->title + " has none: use " +
                 core::listed(format_names(&TextFormat::has_columns), "or", false) + only_predicted);
  }
  if (c.has_pairs()) {
    complain(reader, "source.text_pair",
             std::string("has no meaning for ") + format->title + ", which has one column.");
  }
}

void check_source(const PrepConfig& c, config::TomlReader& reader) {
  if (c.source.files.empty() && c.source.validation_files.empty() && c.source.test_files.empty()) {
    complain(reader, "source.files", "names no file, and neither do validation_files and test_files.",
             {"source.validation_files", "source.test_files"});
  }
  if (c.source.text.empty()) complain(reader, "source.text", "names no column.");
  const bool good_delimiter =
      !c.source.delimiter ||
      (c.source.delimiter->size() == 1 && std::string("\"\r\n").find(*c.source.delimiter) == std::string::npos);
  if (!good_delimiter) {
    complain(reader, "source.delimiter", "must be one ASCII character, neither a quote nor a line end, e.g. \"\\t\".");
  }
  check_format(c, reader);
}

/// Without labels rows are good for prediction alone, by a model that has its vocabulary and its labels already.
void check_unlabelled(const PrepConfig& c, config::TomlReader& reader) {
  if (!c.wants_labels() || c.has_labels() || c.task.name.empty()) return;
  if (!c.only_tests()) {
    complain(reader, "source.label",
             "= \"\" is for text without labels, for mode predict. All of it is test data: remove [split] train and "
             "validation and [source] validation_files, or name the column of the labels.");
  }
  if (c.tokenizer.train_size > 0) {
    complain(reader, "tokenizer.train_size",
             "trains a new vocabulary, but a prediction needs the model's: set vocabulary to the model's folder "
             "instead, e.g. \"RUN/model\".");
  }
  if (!c.task.labels.empty()) {
    complain(reader, "task.labels", "has no meaning for text without labels: their names are the model's.");
  }
}

/// A sequence has its special tokens and at least one token of each text; of a text that is cut into windows, a window.
void check_max_tokens(const PrepConfig& c, config::TomlReader& reader) {
  const tokenize::TokenizerKind* const kind = tokenize::find_tokenizer_kind(c.tokenizer.type);
  if (kind == nullptr) return;  // which is a problem of its own
  const bool pairs = c.has_pairs();
  const std::int64_t window = c.tokenizer.doc_stride ? std::max<std::int64_t>(1, c.tokenizer.least_window()) : 1;
  const std::int64_t least = kind->sequence.special_tokens(pairs) + (pairs ? 1 : 0) + window;
  if (c.tokenizer.max_tokens >= least) return;
  if (window > 1) {
    return complain(reader, "tokenizer.max_tokens",
                    "must be at least " + std::to_string(least) +
                        " with doc_stride = " + std::to_string(*c.tokenizer.doc_stride) +
                        ", so that windows leave no token out: increase " + "max_tokens or reduce doc_stride.",
                    {"tokenizer.doc_stride"});
  }
  complain(reader, "tokenizer.max_tokens",
           "must be at least " + std::to_string(least) + (pairs ? " for pairs: " : ": ") +
               describe(kind->sequence, pairs) + ".");
}

void check_windows(const PrepConfig& c, config::TomlReader& reader) {
  if (c.tokenizer.stride == "step" && !c.tokenizer.doc_stride) {
    complain(reader, "tokenizer.stride",
             "= \"step\" needs doc_stride, the tokens between the beginnings of two windows.");
  }
  if (c.tokenizer.stride == "step" && c.tokenizer.doc_stride == 0) {
    complain(reader, "tokenizer.doc_stride",
             "must be at least 1 with stride = \"step\": windows begin so many tokens apart.");
  }
  if (reader.given("task.pack") && c.packs() && c.tokenizer.doc_stride) {
    complain(reader, "task.pack", "does not go with [tokenizer] doc_stride: packed text is cut without overlap.");
  }
}

void check_rest(const PrepConfig& c, config::TomlReader& reader) {
  if (c.tokenizer.vocabulary.empty() && c.tokenizer.train_size == 0) {
    complain(reader, "tokenizer.vocabulary",
             "is missing, and so is train_size: give a vocab.txt, a tokenizer.json or a folder that has either, or in "
             "train_size the size of a vocabulary to train.",
             {"tokenizer.train_size"});
  } else if (!c.tokenizer.vocabulary.empty() && c.tokenizer.train_size > 0) {
    complain(reader, "tokenizer.vocabulary", "and train_size are both given: keep one of them.");
  }
  check_max_tokens(c, reader);
  check_windows(c, reader);
  std::vector<std::string> labels = c.task.labels;
  std::sort(labels.begin(), labels.end());
  const auto twice = std::adjacent_find(labels.begin(), labels.end());
  if (twice != labels.end()) complain(reader, "task.labels", "names \"" + *twice + "\" twice.");
  if (!labels.empty() && !c.task.name.empty() && !c.kind().has_label_names()) {
    complain(reader, "task.labels",
             "is for " + tasks::names_where([](const tasks::Task& task) { return task.has_label_names(); }) +
                 ", and the task is " + c.task.name + ".");
  }
  if (reader.given("task.pack") && c.task.pack && !c.kind().packs_rows && !c.task.name.empty()) {
    complain(reader, "task.pack",
             "is for " + tasks::names_where([](const tasks::Task& task) { return task.packs_rows; }) +
                 ", and the task is " + c.task.name + ".");
  }
  if (reader.given("task.pack") && c.packs() && c.has_pairs()) {
    complain(reader, "task.pack", "does not go with pairs.");
  }
  if (reader.given("output.directory") && c.output.directory.empty()) {
    complain(reader, "output.directory", "is empty.");
  }
}

ReadPrepConfig read(config::TomlReader& reader, const std::string& name) {
  config::refuse_input_of("bert_hpc", "run", "source", reader, name);
  PrepConfig c;
  visit_keys(reader, c);
  const TextFormat* const format = find_text_format(c.source.format);
  if (format != nullptr && !reader.given("split.group")) c.split.group = format->group;
  complete_split(c, reader);
  if ((c.has_pairs() || c.tokenizer.doc_stride) && !reader.given("task.pack")) c.task.pack = false;
  c.source.label_given = reader.given("source.label");
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
  check_source(c, reader);
  check_unlabelled(c, reader);
  check_rest(c, reader);
  c.task.pack = c.packs();
  return {std::move(c), reader.problems()};
}

}  // namespace

bool PrepConfig::stratifies() const {
  return split.stratify && split.group.empty() && has_labels() && label_rules(kind().labels).can_stratify;
}

std::string PrepConfig::label_column() const {
  const bool is_number = source.label.find_first_not_of("0123456789") == std::string::npos;
  return has_labels() && source.header && !is_number ? source.label : "";
}

bool PrepConfig::only_tests() const {
  return source.validation_files.empty() && (source.files.empty() || (split.train == 0 && split.validation == 0));
}

data::TextSettings PrepConfig::text() const {
  return data::TextSettings::of(text_form());
}

tokenize::TextForm PrepConfig::text_form() const {
  return tokenizer.text.form();
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
  row.encoding = source.encoding == "latin-1" ? TextEncoding::latin1 : TextEncoding::utf8;
  row.header = source.header;
  row.delimiter = source.delimiter ? source.delimiter->front() : format.delimiter;
  row.quotes = source.quotes.value_or(format.quotes);
  row.column_limit = static_cast<int>(source.columns);
  row.extra_columns = source.extra_columns;
  row.unit = source.unit == "paragraph" ? TextUnit::paragraph : TextUnit::line;
  if (has_labels() && label_rules(kind().labels).separates_names) {
    row.list_column = source.label;
    row.list_separator = source.label_separator;
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
