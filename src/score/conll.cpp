// Labelled entities in columns: conlleval's numbers for tags in IOB1 or IOB2, and for BIOES those of seqeval
// (metrics/entities.hpp). Percent.
//
// A line holds the token first and the tag last, in columns as bert_hpc_prep splits them; blank lines, and lines that
// begin with -DOCSTART- or -X-, separate sentences and are no tokens, and neither are comments before a sentence.
#include <algorithm>

#include "bert_hpc/core/conll_line.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/entities.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

using metrics::CountsByType;
using metrics::EntityCounts;
using metrics::Tag;

struct Token {
  std::string_view text;
  Tag tag;
  std::size_t line;
  bool begins_sentence;
};

Tag tag_of(const Line& line) {
  const std::string_view text = line.columns.back();
  const std::optional<Tag> tag = metrics::parse_tag(text);
  if (!tag) {
    line.fail("the last column, '" + core::printable(text) +
              "', is not a tag; write O, or B-, I-, E- or S- (L- or U- in BILOU) and the entity's type.");
  }
  return *tag;
}

bool separates(const Line& line) {
  return line.columns.empty() || line.columns[0] == "-DOCSTART-" || line.columns[0] == "-X-";
}

/// Shape of the first line with a token that cannot be a comment.
core::ConllShape shape_of(const std::string& path, std::string_view text) {
  std::optional<core::ConllShape> shape;
  each_line(path, text, Separator::conll, [&](const Line& line) {
    if (shape || separates(line) || core::may_be_conll_comment(line.content)) return;
    shape.emplace(line.content, line.columns);
  });
  return shape.value_or(core::ConllShape());
}

/// Whether a token is that of a file of predictions, which have "_" for blanks and for an empty one.
bool are_same(std::string_view a, std::string_view b) {
  const auto written = [](char c) { return core::ascii_blanks.find(c) == std::string_view::npos ? c : '_'; };
  const std::string_view none = "_";
  if (a.empty()) a = none;
  if (b.empty()) b = none;
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](char x, char y) { return written(x) == written(y); });
}

/// Throws Error(data) if a line has no tag, or not as many columns as the first.
std::vector<Token> read_tokens(const std::string& path, std::string_view text) {
  std::vector<Token> tokens;
  std::size_t columns = 0;
  bool begins_sentence = true;
  const core::ConllShape shape = shape_of(path, text);
  each_line(path, text, Separator::conll, [&](const Line& line) {
    if (separates(line)) {
      begins_sentence = true;
      return;
    }
    if (begins_sentence && shape.is_comment(line.content, line.columns)) return;
    if (columns == 0) columns = line.columns.size();
    if (line.columns.size() < 2) line.fail("it has 1 column; write 'token … tag'.");
    if (line.columns.size() != columns) {
      line.fail("it has " + core::counted(std::ssize(line.columns), "column") + ", and the first line of a token has " +
                std::to_string(columns) + "; write as many in each.");
    }
    tokens.push_back({line.columns[0], tag_of(line), line.number, begins_sentence});
    begins_sentence = false;
  });
  if (tokens.empty()) fail_data(path, "it has no tokens; write lines 'token … tag'.");
  return tokens;
}

void require_same_tokens(const Files& files, const std::vector<Token>& gold, const std::vector<Token>& predicted) {
  const std::size_t count = std::min(gold.size(), predicted.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Line line{files.predictions, predicted[i].line};
    const std::string location = files.gold + ", line " + std::to_string(gold[i].line);
    if (!are_same(gold[i].text, predicted[i].text)) {
      line.fail("the token is '" + core::printable(predicted[i].text) + "', and '" + core::printable(gold[i].text) +
                "' in " + location + "; give the predictions of this file.");
    }
    if (gold[i].begins_sentence != predicted[i].begins_sentence) {
      line.fail(std::string("a sentence ") + (gold[i].begins_sentence ? "begins in " : "continues in ") + location +
                ", and not here; separate sentences by blank lines as there.");
    }
  }
  if (gold.size() == predicted.size()) return;
  const bool is_short = predicted.size() < gold.size();
  const Line line{is_short ? files.gold : files.predictions, (is_short ? gold : predicted)[count].line};
  line.fail("this token has no counterpart in " + (is_short ? files.predictions : files.gold) +
            ", which ends before; give the predictions of the same tokens.");
}

CountsByType count(const std::vector<Token>& gold, const std::vector<Token>& predicted) {
  CountsByType counts;
  std::vector<Tag> actual, guessed;  // of a sentence
  for (std::size_t i = 0; i < gold.size(); ++i) {
    actual.push_back(gold[i].tag);
    guessed.push_back(predicted[i].tag);
    const bool is_last = i + 1 == gold.size() || gold[i + 1].begins_sentence;
    if (!is_last) continue;
    metrics::count_entities(actual, guessed, counts);
    actual.clear();
    guessed.clear();
  }
  return counts;
}

void add_scores(Result& result, const std::string& prefix, const EntityCounts& counts) {
  result.numbers.push_back({prefix + "precision", counts.precision()});
  result.numbers.push_back({prefix + "recall", counts.recall()});
  result.numbers.push_back({prefix + "FB1", counts.f1()});
}

Result score_files(const Files& files) {
  const std::string gold_text = read_text(files.gold), predicted_text = read_text(files.predictions);
  const std::vector<Token> gold = read_tokens(files.gold, gold_text);
  const std::vector<Token> predicted = read_tokens(files.predictions, predicted_text);
  require_same_tokens(files, gold, predicted);
  double same = 0.0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    same += gold[i].tag == predicted[i].tag ? 1.0 : 0.0;
  }
  const CountsByType types = count(gold, predicted);
  EntityCounts all;
  for (const auto& [type, counts] : types) all += counts;
  const auto tokens = static_cast<double>(gold.size());
  Result result;
  result.numbers = {{"tokens", tokens, true},
                    {"phrases", all.gold, true},
                    {"found", all.found, true},
                    {"correct", all.correct, true},
                    {"accuracy", 100.0 * same / tokens}};
  add_scores(result, "", all);
  for (const auto& [type, counts] : types) {
    add_scores(result, std::string(type) + '_', counts);
    result.numbers.push_back({std::string(type) + "_found", counts.found, true});
  }
  return result;
}

}  // namespace

const Scorer conll_scorer = {"conll",
                             "entities in CoNLL's columns, the tag last: IOB1, IOB2, BIOES or BILOU; the numbers of "
                             "conlleval, for the last two of seqeval",
                             false, score_files};

}  // namespace bert_hpc::score
