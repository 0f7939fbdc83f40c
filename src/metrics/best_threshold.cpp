#include "bert_hpc/metrics/best_threshold.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace bert_hpc::metrics {
namespace {

constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

double probability(double output) {
  return 1 / (1 + std::exp(-output));
}

}  // namespace

BestThreshold best_threshold(std::span<const double> outputs, std::span<const std::uint8_t> is_there) {
  struct Decision {
    float output;  // as heads give them
    bool is_there;
  };
  std::vector<Decision> decisions;
  decisions.reserve(outputs.size());
  double there = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (std::isnan(outputs[i])) return {undefined, undefined};
    decisions.push_back({static_cast<float>(outputs[i]), is_there[i] == 1});
    there += is_there[i];
  }
  if (there == 0) return {undefined, undefined};
  std::sort(decisions.begin(), decisions.end(),
            [](const Decision& a, const Decision& b) { return a.output > b.output; });
  BestThreshold best{.probability = 0, .f1 = -1};
  double hits = 0;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    hits += decisions[i].is_there;
    const bool is_last = i + 1 == decisions.size();
    if (!is_last && decisions[i + 1].output == decisions[i].output) continue;
    const double f1 = 2 * hits / (there + static_cast<double>(i + 1));
    if (f1 <= best.f1) continue;
    const double next = is_last ? 0 : probability(decisions[i + 1].output);
    best = {(probability(decisions[i].output) + next) / 2, f1};
  }
  return best;
}

}  // namespace bert_hpc::metrics
