// Entities of all types together and of each. Sums: gold, found and correct entities, each first of all types, then of
// each type (EvaluatedSet::entity_types); the rank that has whole sentences adds them.
#include "bert_hpc/metrics/entities.hpp"

#include <algorithm>
#include <limits>

#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::metrics {
namespace {

/// Sums of each kind: of all types and of each.
std::size_t columns_of(const EvaluatedSet& set) {
  return static_cast<std::size_t>(set.entity_types) + 1;
}

std::int64_t size(const EvaluatedSet& set) {
  return set.entity_types == 0 ? 0 : 3 * (set.entity_types + 1);
}

std::vector<double> values(const EvaluatedSet& set, const LossSum&, ConstSums sums) {
  if (sums.empty()) return std::vector<double>(3, std::numeric_limits<double>::quiet_NaN());
  const std::size_t columns = columns_of(set);
  const EntityCounts all = {sums[0], sums[columns], sums[2 * columns]};
  return {all.precision() / 100, all.recall() / 100, all.f1() / 100};
}

ClassCounts type_counts(const EvaluatedSet& set, ConstSums sums) {
  const std::size_t columns = columns_of(set), types = columns - 1;
  if (sums.empty()) return {};
  return {sums.subspan(1, types), sums.subspan(columns + 1, types), sums.subspan(2 * columns + 1, types)};
}

}  // namespace

const Family& entities() {
  static const Family family = {.metrics = {{"entity_precision", "entity precision"},
                                            {"entity_recall", "entity recall"},
                                            {"entity_f1", "entity f1"}},
                                .size = size,
                                .values = values,
                                .type_counts = type_counts};
  return family;
}

void add_entities(const CountsByType& counts, const std::vector<std::string>& types, Sums sums) {
  if (sums.empty()) return;
  const std::size_t columns = types.size() + 1;
  for (const auto& [type, own] : counts) {
    const auto index = static_cast<std::size_t>(std::lower_bound(types.begin(), types.end(), type) - types.begin());
    for (const std::size_t column : {std::size_t{0}, index + 1}) {
      sums[column] += own.gold;
      sums[columns + column] += own.found;
      sums[2 * columns + column] += own.correct;
    }
  }
}

}  // namespace bert_hpc::metrics
