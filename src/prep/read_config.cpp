// Reads bert_hpc_prep's input and completes what it does not say by what it says.
#include "bert_hpc/prep/read_config.hpp"

#include <algorithm>
#include <utility>

#include "input_rules.hpp"
#include "label_rules.hpp"
#include "split_rules.hpp"

namespace bert_hpc::prep {
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

/// Sets the columns of tokens, and those of pairs that the source has, if the input does not say them.
void complete_ids(PrepConfig& c, const config::TomlReader& reader) {
  const bool pairs = c.kind().labels_pairs;
  if (!reader.given("source.text")) {
    c.source.text = {pairs ? "first" : "tokens"};
    if (pairs && !reader.given("source.text_pair")) c.source.text_pair = {"second"};
  }
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
  reader.override_excludes("tokenizer.vocabulary", {"tokenizer.train_size"});
  PrepConfig c;
  visit_keys(reader, c);
  const TextFormat* const format = find_text_format(c.source.format);
  if (format != nullptr && !reader.given("split.group")) c.split.group = format->group;
  if (c.has_answers()) complete_answers(c, reader);
  if (c.has_words()) complete_words(c, reader);
  if (c.has_answers() || c.has_words()) complete_windows(c);
  if (c.has_candidates() && format != nullptr) complete_candidates(c, *format, reader);
  if (c.parts_texts()) complete_texts(c, reader);
  if (c.holds_ids()) complete_ids(c, reader);
  const bool takes_unit = format != nullptr && format->takes_unit;
  if (c.pairs_documents() && takes_unit && !reader.given("source.unit")) c.source.unit = "paragraph";
  if (!c.source.label_columns.empty()) complete_label_columns(c, reader);
  complete_split(c, reader);
  if ((c.has_pairs() || c.tokenizer.doc_stride) && !reader.given("task.pack")) c.task.pack = false;
  c.tokenizer.max_tokens_given = reader.given("tokenizer.max_tokens");
  if (c.pairs_documents() && !reader.given("source.label")) c.source.label.clear();
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
  if (c.pairs_documents() && !c.task.pairs) c.task.pairs = "next_sentence";
  return {std::move(c), reader.problems()};
}

}  // namespace

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

}  // namespace bert_hpc::prep
