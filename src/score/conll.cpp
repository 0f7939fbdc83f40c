// Labelled entities in columns: conlleval's numbers (Tjong Kim Sang, the shared tasks CoNLL-2000 and 2003) for tags in
// IOB1 or IOB2, and for BIOES those of seqeval in its default mode, which adds E and S to conlleval's rules. Percent.
// An entity begins at B or S, at any tag after O, E or S, and where the type changes; so I after another type or after
// O begins one. A predicted entity is correct if first token, last token and type are those of a gold one.
//
// A line holds the token first and the tag last; blank lines, and lines that begin with -DOCSTART- or -X-, separate
// sentences and are no tokens.
#include <algorithm>
#include <map>
#include <tuple>

#include "bert_hpc/core/text.hpp"
#include "json_file.hpp"
#include "lines.hpp"
#include "scorers.hpp"

namespace bert_hpc::score {
namespace {

struct Tag {
  char kind = 'O';          ///< one of B, I, E, S, O
  std::string_view type{};  ///< "_" where a tag has none, as seqeval names it; empty for O
};

struct Token {
  std::string_view text;
  Tag tag;
  std::size_t line;
  bool begins_sentence;
};

struct Entity {
  std::size_t first, last;  ///< tokens
  std::string_view type;
  auto key() const { return std::tie(first, last, type); }
};

/// Entities of one type: in GOLD, in PREDICTIONS, in both.
struct Counts {
  double gold = 0.0, found = 0.0, correct = 0.0;
};

Tag parse_tag(const Line& line) {
  const std::string_view text = line.columns.back();
  if (text == "O") return {};
  const bool has_type = text.size() > 2 && text[1] == '-';
  if (std::string_view("BIES").find(text[0]) == std::string_view::npos || (text.size() > 1 && !has_type)) {
    line.fail("the last column, '" + core::printable(text) +
              "', is not a tag; write O, or B-, I-, E- or S- and the entity's type.");
  }
  return {text[0], has_type ? text.substr(2) : std::string_view("_")};
}

/// Throws Error(data) where a line has no tag, or not as many columns as the first.
std::vector<Token> read_tokens(const std::string& path, std::string_view text) {
  std::vector<Token> tokens;
  std::size_t columns = 0;
  bool begins_sentence = true;
  each_line(path, text, Separator::blanks, [&](const Line& line) {
    if (line.columns.empty() || line.columns[0] == "-DOCSTART-" || line.columns[0] == "-X-") {
      begins_sentence = true;
      return;
    }
    if (columns == 0) columns = line.columns.size();
    if (line.columns.size() < 2) line.fail("it has 1 column; write 'token … tag'.");
    if (line.columns.size() != columns) {
      line.fail("it has " + core::counted(std::ssize(line.columns), "column") + ", and the first line of a token has " +
                std::to_string(columns) + "; write as many in each.");
    }
    tokens.push_back({line.columns[0], parse_tag(line), line.number, begins_sentence});
    begins_sentence = false;
  });
  if (tokens.empty()) fail_data(path, "it has no tokens; write lines 'token … tag'.");
  return tokens;
}

void require_same_tokens(const Files& files, const std::vector<Token>& gold, const std::vector<Token>& predicted) {
  const std::size_t count = std::min(gold.size(), predicted.size());
  for (std::size_t i = 0; i < count; ++i) {
    const Line line{files.predictions, predicted[i].line};
    const std::string place = files.gold + ", line " + std::to_string(gold[i].line);
    if (gold[i].text != predicted[i].text) {
      line.fail("the token is '" + core::printable(predicted[i].text) + "', and '" + core::printable(gold[i].text) +
                "' in " + place + "; give the predictions of this file.");
    }
    if (gold[i].begins_sentence != predicted[i].begins_sentence) {
      line.fail(std::string("a sentence ") + (gold[i].begins_sentence ? "begins in " : "continues in ") + place +
                ", and not here; separate sentences by blank lines as there.");
    }
  }
  if (gold.size() == predicted.size()) return;
  const bool is_short = predicted.size() < gold.size();
  const Line line{is_short ? files.gold : files.predictions, (is_short ? gold : predicted)[count].line};
  line.fail("this token has no counterpart in " + (is_short ? files.predictions : files.gold) +
            ", which ends before; give the predictions of the same tokens.");
}

/// Does an entity end between two neighbouring tokens?
bool ends(const Tag& before, const Tag& after) {
  if (before.kind == 'O') return false;
  if (before.kind == 'E' || before.kind == 'S') return true;
  return after.kind == 'B' || after.kind == 'S' || after.kind == 'O' || before.type != after.type;
}

/// Does one begin?
bool begins(const Tag& before, const Tag& after) {
  if (after.kind == 'O') return false;
  if (after.kind == 'B' || after.kind == 'S') return true;
  return before.kind == 'E' || before.kind == 'S' || before.kind == 'O' || before.type != after.type;
}

std::vector<Entity> entities(const std::vector<Token>& tokens) {
  std::vector<Entity> found;
  std::size_t first = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const Tag before = tokens[i].begins_sentence ? Tag{} : tokens[i - 1].tag;
    const bool is_last = i + 1 == tokens.size() || tokens[i + 1].begins_sentence;
    const Tag after = is_last ? Tag{} : tokens[i + 1].tag;
    if (begins(before, tokens[i].tag)) first = i;
    if (ends(tokens[i].tag, after)) found.push_back({first, i, tokens[i].tag.type});
  }
  return found;
}

std::map<std::string_view, Counts> count(const std::vector<Entity>& gold, const std::vector<Entity>& predicted) {
  std::map<std::string_view, Counts> counts;
  for (const Entity& one : gold) counts[one.type].gold += 1.0;
  for (const Entity& one : predicted) counts[one.type].found += 1.0;
  for (std::size_t g = 0, p = 0; g < gold.size() && p < predicted.size();) {  // both ascend, and none overlap
    if (gold[g].key() == predicted[p].key()) counts[gold[g].type].correct += 1.0;
    const std::size_t first = std::min(gold[g].first, predicted[p].first);
    if (gold[g].first == first) ++g;
    if (predicted[p].first == first) ++p;
  }
  return counts;
}

void add_scores(Result& result, const std::string& prefix, const Counts& counts) {
  const double precision = counts.found > 0.0 ? 100.0 * counts.correct / counts.found : 0.0;
  const double recall = counts.gold > 0.0 ? 100.0 * counts.correct / counts.gold : 0.0;
  const double both = precision + recall;
  result.numbers.push_back({prefix + "precision", precision});
  result.numbers.push_back({prefix + "recall", recall});
  result.numbers.push_back({prefix + "FB1", both > 0.0 ? 2.0 * precision * recall / both : 0.0});
}

Result score_files(const Files& files) {
  const std::string gold_text = read_text(files.gold), predicted_text = read_text(files.predictions);
  const std::vector<Token> gold = read_tokens(files.gold, gold_text);
  const std::vector<Token> predicted = read_tokens(files.predictions, predicted_text);
  require_same_tokens(files, gold, predicted);
  double same = 0.0;
  for (std::size_t i = 0; i < gold.size(); ++i) {
    const bool is_same = gold[i].tag.kind == predicted[i].tag.kind && gold[i].tag.type == predicted[i].tag.type;
    same += is_same ? 1.0 : 0.0;
  }
  const auto types = count(entities(gold), entities(predicted));
  Counts all;
  for (const auto& [type, counts] : types) {
    all.gold += counts.gold;
    all.found += counts.found;
    all.correct += counts.correct;
  }
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

const Scorer conll_scorer = {
    "conll",
    "entities in CoNLL's columns, the tag last: IOB1, IOB2 or BIOES; the numbers of conlleval, for BIOES of seqeval",
    false, score_files};

}  // namespace bert_hpc::score
