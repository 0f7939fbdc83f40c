#include "bert_hpc/metrics/registry.hpp"

#include <algorithm>

namespace bert_hpc::metrics {
namespace {

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> all = {
      &class_counts(),     &binary_ranking(), &calibration(),   &label_sets(),       &token_counts(),
      &value_statistics(), &answers(),        &entities(),      &rankings(),         &value_levels(),
      &text_similarity(),  &batch_ranks(),    &text_triplets(), &class_neighbours(), &pretraining_counts()};
  return all;
}

}  // namespace

const Metric* find_metric(std::string_view name) {
  static const Metric loss = {"loss", "", false};
  return name == loss.name ? &loss : find_metric(name, families());
}

const Metric* find_metric(std::string_view name, const std::set<std::string>& names) {
  for (const Family* family : families()) {
    const bool is_there = std::all_of(family->metrics.begin(), family->metrics.end(), [&](const Metric& metric) {
      return metric.outputs != 0 || names.contains(metric.name);
    });
    const Metric* const metric = is_there ? find_metric(name, {family}) : nullptr;
    if (metric != nullptr) return metric;
  }
  return find_metric(name);
}

const Metric* find_metric(std::string_view name, const std::vector<const Family*>& families) {
  for (const Family* family : families) {
    for (const Metric& metric : family->metrics) {
      if (metric.name == name) return &metric;
    }
  }
  return nullptr;
}

bool larger_is_better(std::string_view name) {
  const Metric* const metric = find_metric(name);
  return metric == nullptr || metric->larger_is_better;
}

std::vector<std::string> names_of(const std::vector<const Family*>& families) {
  std::vector<std::string> names = {"loss"};
  for (const Family* family : families) {
    for (const Metric& metric : family->metrics) names.push_back(metric.name);
  }
  return names;
}

std::vector<std::string> goals_of(const std::vector<const Family*>& families) {
  std::vector<std::string> names = names_of(families);
  std::erase_if(names, [&](const std::string& name) {
    const Metric* const metric = find_metric(name, families);
    return metric != nullptr && !metric->is_goal;
  });
  return names;
}

}  // namespace bert_hpc::metrics
