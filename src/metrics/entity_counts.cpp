#include "bert_hpc/metrics/entities.hpp"

#include <algorithm>

namespace bert_hpc::metrics {
namespace {

/// Whether an entity ends between two neighbouring tokens.
bool ends(const Tag& before, const Tag& after) {
  if (before.kind == 'O') return false;
  if (before.kind == 'E' || before.kind == 'S') return true;
  return after.kind == 'B' || after.kind == 'S' || after.kind == 'O' || before.type != after.type;
}

/// Whether an entity begins there.
bool begins(const Tag& before, const Tag& after) {
  if (after.kind == 'O') return false;
  if (after.kind == 'B' || after.kind == 'S') return true;
  return before.kind == 'E' || before.kind == 'S' || before.kind == 'O' || before.type != after.type;
}

/// Walks along the tags of a sentence.
class Entities {
 public:
  explicit Entities(std::span<const Tag> tags) : tags_(tags) {}

  /// Moves to the next token.
  void step() {
    const Tag before = token_ == 0 ? Tag{} : tags_[token_ - 1];
    if (begins(before, tags_[token_])) first_ = token_;
    const Tag after = token_ + 1 == tags_.size() ? Tag{} : tags_[token_ + 1];
    ends_ = ends(tags_[token_], after);
    ++token_;
  }
  /// Whether an entity ends at the token. It began at first().
  bool ends_here() const { return ends_; }
  std::size_t first() const { return first_; }
  std::string_view type() const { return tags_[token_ - 1].type; }

 private:
  std::span<const Tag> tags_;
  std::size_t token_ = 0, first_ = 0;
  bool ends_ = false;
};

}  // namespace

std::optional<Tag> parse_tag(std::string_view text) {
  if (text == "O") return Tag{};
  const bool has_type = text.size() > 2 && text[1] == '-';
  constexpr std::string_view letters = "BIESLUMW", kinds = "BIESESIS";
  const std::size_t letter = text.empty() ? letters.npos : letters.find(text[0]);
  if (letter == letters.npos || (text.size() > 1 && !has_type)) return std::nullopt;
  return Tag{kinds[letter], has_type ? text.substr(2) : std::string_view("_")};
}

EntityCounts& EntityCounts::operator+=(const EntityCounts& more) {
  gold += more.gold;
  found += more.found;
  correct += more.correct;
  return *this;
}

double EntityCounts::precision() const {
  return found > 0.0 ? 100.0 * correct / found : 0.0;
}

double EntityCounts::recall() const {
  return gold > 0.0 ? 100.0 * correct / gold : 0.0;
}

double EntityCounts::f1() const {
  const double both = precision() + recall();
  return both > 0.0 ? 2.0 * precision() * recall() / both : 0.0;
}

void count_entities(std::span<const Tag> gold, std::span<const Tag> predicted, CountsByType& counts) {
  Entities actual(gold), guessed(predicted);
  for (std::size_t token = 0; token < gold.size(); ++token) {
    actual.step();
    guessed.step();
    if (actual.ends_here()) counts[actual.type()].gold += 1.0;
    if (guessed.ends_here()) counts[guessed.type()].found += 1.0;
    const bool is_same = actual.ends_here() && guessed.ends_here() && actual.first() == guessed.first() &&
                         actual.type() == guessed.type();
    if (is_same) counts[actual.type()].correct += 1.0;
  }
}

std::vector<std::string> entity_types(const std::vector<std::string>& label_names) {
  std::vector<std::string> types;
  for (const std::string& name : label_names) {
    const std::optional<Tag> tag = parse_tag(name);
    if (!tag) return {};
    if (tag->kind != 'O') types.emplace_back(tag->type);
  }
  std::sort(types.begin(), types.end());
  types.erase(std::unique(types.begin(), types.end()), types.end());
  return types;
}

}  // namespace bert_hpc::metrics
