// Sums over the columns of embeddings in host memory, of which evaluations need one for each pair of texts. Internal to
// the module.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace bert_hpc::objectives {

/// Σ term(a, b) over the columns, in floats and at the end in doubles. Sixteen sums at a time fill vector registers.
template <class Term>
double sum_over(std::span<const float> a, std::span<const float> b, const Term& term) {
  constexpr std::size_t lanes = 16;
  std::array<float, lanes> sums{};
  std::size_t j = 0;
  for (; j + lanes <= a.size(); j += lanes) {
    for (std::size_t lane = 0; lane < lanes; ++lane) sums[lane] += term(a[j + lane], b[j + lane]);
  }
  double sum = 0;
  for (const float of_lane : sums) sum += static_cast<double>(of_lane);
  for (; j < a.size(); ++j) sum += static_cast<double>(term(a[j], b[j]));
  return sum;
}

inline double product(std::span<const float> a, std::span<const float> b) {
  return sum_over(a, b, [](float x, float y) { return x * y; });
}

/// |a − b|².
inline double squared_distance(std::span<const float> a, std::span<const float> b) {
  return sum_over(a, b, [](float x, float y) { return (x - y) * (x - y); });
}

}  // namespace bert_hpc::objectives
