// Entities in sequences of tags, as conlleval (Tjong Kim Sang, the shared tasks CoNLL-2000 and 2003) finds them for
// IOB1 and IOB2, and for BIOES seqeval in its default mode, which adds E and S to conlleval's rules. An entity begins
// at B or S, at any tag after O, E or S, and where the type changes; so I after another type or after O begins one. A
// predicted entity is correct if first token, last token and type are those of a gold one. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bert_hpc/metrics/metric.hpp"

namespace bert_hpc::metrics {

struct Tag {
  char kind = 'O';          ///< one of B, I, E, S, O
  std::string_view type{};  ///< "_" where a tag has none, as seqeval names it; empty for O
  bool operator==(const Tag&) const = default;
};
/// O, or B-, I-, E- or S- and a type, or one of these letters alone; of BILOU L is E and U is S, of BMEWO M is I and W
/// is S. None: it is no tag. `text` must outlive the tag.
std::optional<Tag> parse_tag(std::string_view text);

/// Entities among the gold tags, among the predicted ones, in both.
struct EntityCounts {
  double gold = 0.0, found = 0.0, correct = 0.0;

  EntityCounts& operator+=(const EntityCounts& more);
  // In percent; 0 if nothing was found, or there is nothing to find.
  double precision() const;
  double recall() const;
  double f1() const;
};
using CountsByType = std::map<std::string_view, EntityCounts>;

/// Adds the entities of a sentence: both spans have a tag for each of its tokens.
void count_entities(std::span<const Tag> gold, std::span<const Tag> predicted, CountsByType& counts);

/// Adds to the sums of entities(). types: entity_types(); each of the counts' is among them.
void add_entities(const CountsByType& counts, const std::vector<std::string>& types, Sums sums);

/// The types of these tags, ascending; none if one of them is no tag, as of parts of speech.
std::vector<std::string> entity_types(const std::vector<std::string>& label_names);

}  // namespace bert_hpc::metrics
