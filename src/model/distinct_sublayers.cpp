#include "bert_hpc/model/distinct_sublayers.hpp"

#include <algorithm>

namespace bert_hpc::model {
std::vector<DistinctSublayer> distinct_sublayers(const ModelPlan& plan) {
  std::vector<DistinctSublayer> all;
  const std::int64_t last = plan.sublayer_count() - 1;
  for (std::int64_t i = 0; i <= last; ++i) {
    const layers::SublayerSettings& settings = plan.sublayers[static_cast<std::size_t>(i)];
    const bool selects = plan.computes_selection(i), backward = plan.sublayer_training(i).backward;
    const auto same_work = std::find_if(all.begin(), all.end(), [&](const DistinctSublayer& other) {
      const std::int64_t example = other.sublayers.front();
      return i < last && plan.computes_selection(example) == selects &&
             plan.sublayer_training(example).backward == backward &&
             computes_like(plan.sublayers[static_cast<std::size_t>(example)], settings);
    });
    if (same_work != all.end()) {
      same_work->sublayers.push_back(i);
      continue;
    }
    all.push_back({.name = std::string(selects ? "the last block's " : "") + (backward ? "" : "frozen ") +
                           settings.kind->name() + (i == last ? " and the head" : ""),
                   .sublayers = {i}});
  }
  return all;
}

ModelRange range_of_sublayer(const ModelPlan& plan, std::int64_t sublayer) {
  return {.first = sublayer, .last = sublayer + 1, .embeddings = false, .head = sublayer + 1 == plan.sublayer_count()};
}

}  // namespace bert_hpc::model
