#include "input_rules.hpp"

#include <algorithm>

#include "bert_hpc/core/text.hpp"
#include "document_rules.hpp"
#include "label_rules.hpp"
#include "readers/text_decoder.hpp"
#include "split_rules.hpp"

namespace bert_hpc::prep {
namespace {

constexpr const char* only_predicted = ", or [source] label = \"\" for text without labels, for mode predict.";

/// Keys that the format does not take.
void check_format(const PrepConfig& c, config::TomlReader& reader) {
  const TextFormat* const format = find_text_format(c.source.format);
  if (format == nullptr) return;  // which is a problem of its own
  if (!format->lacks.empty()) {
    complain(reader, "source.format", std::string("= \"") + format->name + "\" " + format->lacks + ".");
  }
  if (!format->is_text && !is_utf8(c.source.encoding)) {
    complain(reader, "source.encoding", std::string("is for text, and the format is ") + format->name + ".");
  }
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
  only(&TextFormat::takes_qrels, !c.source.qrels.empty(), "qrels");
  only(&TextFormat::takes_unit, c.source.unit != "line", "unit");
  if (format->takes_table_keys && c.source.extra_columns && !c.source.header) {
    complain(reader, "source.extra_columns",
             "needs a header, which gives the number of columns: it has no meaning without a header.");
  }
  if (format->has_columns) return;
  if (c.has_labels() && !c.task.name.empty()) {
    complain(reader, "task.name",
             "\"" + c.task.name + "\" needs labels, and " + format->title + " has none: use " +
                 core::listed(format_names(&TextFormat::has_columns), "or", false) + only_predicted);
  }
  if (c.has_second_text()) {
    complain(reader, "source.text_pair",
             std::string("has no meaning for ") + format->title + ", which has one column.");
  }
}

bool has_number(tasks::Labels kind) {
  return kind == tasks::Labels::values || kind == tasks::Labels::scores;
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
  if (!is_known_encoding(c.source.encoding)) {
    complain(reader, "source.encoding",
             "= \"" + core::printable(c.source.encoding, 40) +
                 "\" is no encoding that this system's iconv knows (iconv -l lists them). Usual ones are \"utf-8\", "
                 "\"utf-16\", \"latin-1\", \"cp1252\", \"gb18030\" and \"shift_jis\".");
  }
  if (c.source.decimal != "." && !c.task.name.empty() && !has_number(c.kind().labels)) {
    complain(reader, "source.decimal", "is for labels that are numbers, those of the tasks regression and embedding.");
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

/// Several label columns: one for each name of a set, instead of one column with the names, or for each number.
void check_label_columns(const PrepConfig& c, config::TomlReader& reader) {
  const auto& columns = c.source.label_columns;
  if (columns.empty()) return;
  const bool of_sets = label_rules(c.kind().labels).separates_names;
  const char* const key = reader.given("source.label_columns") ? "source.label_columns" : "source.label";
  if (!of_sets && !c.has_value_columns() && !c.task.name.empty()) {
    return complain(reader, key,
                    std::string(reader.given("source.label_columns") ? "is" : "names several columns, which is") +
                        " for multi_label and regression, and the task is " + c.task.name + ".");
  }
  if (!c.source.label.empty()) {
    complain(reader, "source.label_columns", "and label are both given: keep one of them.", {"source.label"});
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string& name = columns[i];
    const std::string& separator = c.source.label_separator;
    if (std::find(columns.begin(), columns.begin() + static_cast<std::ptrdiff_t>(i), name) !=
        columns.begin() + static_cast<std::ptrdiff_t>(i)) {
      complain(reader, key, "names \"" + name + "\" twice.");
    } else if (name.empty() || core::trimmed(name) != name) {
      complain(reader, key, "has the name \"" + name + "\": a label name has no blanks around it.");
    } else if (c.has_value_columns()) {
      if (name.find('/') == std::string::npos) continue;
      complain(
          reader, key,
          "names \"" + name + "\", and metrics have the names of label columns, without \"/\": rename the column.");
    } else if (separator.empty() || name.find(separator) != std::string::npos) {
      complain(reader, key,
               "needs a label_separator that is in no name, and it is \"" + separator + "\": set another one.",
               {"source.label_separator"});
      return;
    }
  }
}

}  // namespace

std::int64_t least_tokens(const PrepConfig& c, const tokenize::SequenceTemplate& sequence) {
  const std::int64_t window = c.tokenizer.doc_stride ? std::max<std::int64_t>(1, c.tokenizer.least_window()) : 1;
  const int more = c.has_pairs() || c.ends_texts() ? 1 : 0;  // the second text, or a token to be predicted
  return sequence.special_tokens(c.has_pairs()) + more + window;
}

namespace {

/// The template is that of the kind; the one of a vocabulary's files is checked when they are read.
void check_max_tokens(const PrepConfig& c, config::TomlReader& reader) {
  const tokenize::TokenizerKind* const kind = tokenize::find_tokenizer_kind(c.tokenizer.type);
  if (kind == nullptr) return;  // which is a problem of its own
  const bool pairs = c.has_pairs();
  const tokenize::SequenceTemplate sequence = c.sequence(kind->sequence);
  const std::int64_t least = least_tokens(c, sequence);
  if (c.tokenizer.max_tokens >= least) return;
  if (c.tokenizer.doc_stride && c.tokenizer.least_window() > 1) {
    return complain(reader, "tokenizer.max_tokens",
                    "must be at least " + std::to_string(least) +
                        " with doc_stride = " + std::to_string(*c.tokenizer.doc_stride) +
                        ", so that windows leave no token out: increase " + "max_tokens or reduce doc_stride.",
                    {"tokenizer.doc_stride"});
  }
  complain(
      reader, "tokenizer.max_tokens",
      "must be at least " + std::to_string(least) + (pairs ? " for pairs: " : ": ") + describe(sequence, pairs) + ".");
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

/// Answers have positions in one column, of a file whose reader knows them.
void check_answers(const PrepConfig& c, config::TomlReader& reader) {
  if (!c.has_answers()) {
    if (reader.given("source.id") && !c.source.id.empty() && !c.has_candidates() && !c.parts_texts()) {
      complain(reader, "source.id",
               "is for question_answering, answer_ranking and embedding, and the task is " + c.task.name + ".");
    }
    return;
  }
  if (c.source.format != "squad" && !c.source.format.empty()) {
    complain(
        reader, "source.format",
        "must be \"squad\" for question_answering, whose answers have positions in their context; that takes SQuAD's "
        "JSON and such questions as JSON Lines.");
  }
  if (c.source.text.size() != 1 || c.source.text_pair.size() != 1) {
    complain(reader, "source.text_pair",
             "and text name one column each for question_answering: the question's and the context's.");
  }
}

/// Texts in words are one column, and each word's tag counts.
void check_words(const PrepConfig& c, config::TomlReader& reader) {
  const bool is_known = !c.task.name.empty() && !c.source.format.empty();
  if (!c.source.sentence.empty() && is_known && (!c.has_words() || c.source.format == "conll")) {
    complain(reader, "source.sentence",
             "is for token_classification from files with a word a row, which name its sentence in a column; the task "
             "is " +
                 c.task.name + " and the format " + c.source.format + ".");
  }
  if (!c.has_words()) return;
  if (c.source.text.size() != 1 || c.has_pairs()) {
    complain(reader, c.has_pairs() ? "source.text_pair" : "source.text",
             c.has_pairs() ? "has no meaning for token_classification, which labels the words of one text."
                           : "names one column for token_classification: that of the words.");
  }
  if (c.filter.min_rows_per_label > 1 || c.filter.most_frequent_labels > 0) {
    complain(reader, c.filter.min_rows_per_label > 1 ? "filter.min_rows_per_label" : "filter.most_frequent_labels",
             "has no meaning for token_classification: a sentence needs the tags of all its words.");
  }
}

/// Prompts must not shift the words and characters that labels count.
void check_prompts(const PrepConfig& c, config::TomlReader& reader) {
  if (c.task.name.empty()) return;
  if (!c.source.prompt.empty() && c.has_words()) {
    complain(reader, "source.prompt", "does not go with token_classification, whose words have a label each.");
  }
  if (c.source.prompt_pair.empty()) return;
  if (c.has_answers()) {
    complain(reader, "source.prompt_pair",
             "does not go with question_answering, whose answers are counted in characters of the context.");
  } else if (!c.has_second_text()) {
    complain(reader, "source.prompt_pair", "is for second texts, and text_pair names no column of them.");
  }
}

void check_filter(const PrepConfig& c, config::TomlReader& reader) {
  if (c.filter.empty_pairs && (!c.has_pairs() || c.pairs_documents() || c.has_answers())) {
    complain(reader, "filter.empty_pairs",
             c.has_answers()   ? "does not go with question_answering, whose answers are in the second text."
             : c.parts_texts() ? "does not go with embedding, which compares the two texts of a row."
                               : "is for pairs of texts: name the columns of the second text in [source] text_pair.");
  }
  if (c.filter.undecided && !c.task.name.empty() && c.kind().labels != tasks::Labels::classes) {
    complain(reader, "filter.undecided", "is for classification, and the task is " + c.task.name + ".");
  }
}

/// A row is a query and one of its candidates.
void check_candidates(const PrepConfig& c, config::TomlReader& reader) {
  if (!c.has_candidates()) {
    for (const auto& [key, value] : {std::pair("query_id", &c.source.query_id), std::pair("qrels", &c.source.qrels)}) {
      if (value->empty() || c.task.name.empty()) continue;
      complain(reader, std::string("source.") + key, "is for answer_ranking, and the task is " + c.task.name + ".");
    }
    return;
  }
  if (!c.has_pairs()) {
    complain(reader, "source.text_pair", "is empty: answer_ranking reads a query in text and a passage in text_pair.");
  }
  if (c.tokenizer.doc_stride) {
    complain(reader, "tokenizer.doc_stride",
             "does not go with answer_ranking, where a passage has one score: longer ones are truncated.");
  }
  if (c.split.group.empty() && !c.source.files.empty()) {
    complain(reader, "split.group",
             "is empty, but candidates of a query must stay in one split: name a column that they share, such as "
             "query_id.");
  }
}

/// The texts of a row are sequences.
void check_texts(const PrepConfig& c, config::TomlReader& reader) {
  if (!c.parts_texts()) {
    if (!c.source.negatives.empty()) {
      complain(reader, "source.negatives", "is for the task embedding, which compares the texts of a row.");
    }
    return;
  }
  if (c.source.negatives.size() > 1 && c.wants_labels()) {
    complain(
        reader, "source.negatives",
        "names several columns beside label: a row with a score has one negative. Name one column, or remove label.",
        {"source.label"});
  }
  if (!c.has_second_text() && (!c.source.negatives.empty() || c.wants_labels())) {
    complain(
        reader, "source.text_pair",
        "is missing: name the column of the positive, or of the second text of a row with a score. Only rows of one "
        "text, which are good for mode embed, have none.");
  }
  if (c.tokenizer.doc_stride) {
    complain(reader, "tokenizer.doc_stride",
             "does not go with embedding, where a text has one embedding: longer ones are truncated.");
  }
}

void check_rest(const PrepConfig& c, config::TomlReader& reader) {
  if (c.tokenizer.vocabulary.empty() && c.tokenizer.train_size == 0) {
    complain(reader, "tokenizer.vocabulary",
             "is missing, and so is train_size: give a vocab.txt, a tokenizer.json or a folder that has either, or in "
             "train_size the size of a vocabulary to train.",
             {"tokenizer.train_size"});
  } else if (const tokenize::TokenizerKind* const kind = tokenize::find_tokenizer_kind(c.tokenizer.type);
             c.tokenizer.train_size > 0 && kind != nullptr && kind->trainer == nullptr) {
    complain(reader, "tokenizer.train_size",
             std::string("cannot train a ") + kind->title + " vocabulary: name the folder of a model in vocabulary.");
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
  if (c.ends_texts() && c.has_pairs()) {
    complain(reader, "source.text_pair", "does not go with the task " + c.task.name + ", which reads single texts.");
  }
  if (reader.given("output.directory") && c.output.directory.empty()) {
    complain(reader, "output.directory", "is empty.");
  }
}

}  // namespace

void check_input(const PrepConfig& c, config::TomlReader& reader) {
  check_source(c, reader);
  check_unlabelled(c, reader);
  check_label_columns(c, reader);
  check_answers(c, reader);
  check_words(c, reader);
  check_prompts(c, reader);
  check_filter(c, reader);
  check_candidates(c, reader);
  check_texts(c, reader);
  check_documents(c, reader);
  check_ids(c, reader);
  check_rest(c, reader);
}

}  // namespace bert_hpc::prep
