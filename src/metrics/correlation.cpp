#include "bert_hpc/metrics/correlation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace bert_hpc::metrics {

double mean_of(std::span<const double> values) {
  double sum = 0;
  for (const double value : values) sum += value - values.front();
  return values.empty() ? 0.0 : values.front() + sum / static_cast<double>(values.size());
}

double pearson(std::span<const double> x, std::span<const double> y) {
  const double x_mean = mean_of(x), y_mean = mean_of(y);
  double xx = 0, yy = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double from_x = x[i] - x_mean, from_y = y[i] - y_mean;
    xx += from_x * from_x;
    yy += from_y * from_y;
    xy += from_x * from_y;
  }
  if (xx == 0 || yy == 0) return std::numeric_limits<double>::quiet_NaN();
  return std::clamp(xy / (std::sqrt(xx) * std::sqrt(yy)), -1.0, 1.0);
}

double concordance(std::span<const double> x, std::span<const double> y) {
  const double x_mean = mean_of(x), y_mean = mean_of(y);
  double spread = 0, xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double from_x = x[i] - x_mean, from_y = y[i] - y_mean;
    spread += from_x * from_x + from_y * from_y;
    xy += from_x * from_y;
  }
  const double divisor = spread + static_cast<double>(x.size()) * (x_mean - y_mean) * (x_mean - y_mean);
  return divisor == 0 ? std::numeric_limits<double>::quiet_NaN() : 2 * xy / divisor;
}

std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0, end = 0; first < order.size(); first = end) {
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    // The mean of first + 1, …, end.
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = 0.5 * static_cast<double>(first + 1 + end);
  }
  return ranks;
}

}  // namespace bert_hpc::metrics
