#include "bert_hpc/model/model_plan.hpp"

#include <algorithm>

namespace bert_hpc::model {
std::int64_t ModelPlan::most_columns() const {
  std::int64_t most = 0;
  for (std::int64_t i = 0; i <= sublayer_count(); ++i) most = std::max(most, width(i));
  return most;
}

std::int64_t ModelPlan::most_exchanged_columns() const {
  std::int64_t most = std::max({most_columns(), input->most_columns(), head.decoded()});
  for (const Projection& projection : projections) most = std::max(most, projection.out);
  return most;
}

bool ModelPlan::can_be_shared() const {
  return input->can_be_shared() &&
         std::all_of(sublayers.begin(), sublayers.end(), [](const auto& s) { return s.kind->can_be_shared(); });
}

bool ModelPlan::has_relative_positions() const {
  return std::any_of(sublayers.begin(), sublayers.end(),
                     [](const auto& s) { return s.kind->has_relative_positions(); });
}

}  // namespace bert_hpc::model
