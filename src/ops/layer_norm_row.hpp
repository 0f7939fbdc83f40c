// Layer normalisation and the operations before it, for threads that share a row (packs.hpp): a row is read once,
// stays in registers, and is written once. The formulas are those of layer_norm.cpp.
#pragma once

#include <cmath>

#include "bert_hpc/ops/dropout.hpp"
#include "packs.hpp"

namespace bert_hpc::ops::packs {

/// A dropout site with the decisions for its rows.
struct RowSite {
  Dropout dropout;
  TokenRows rows;
  std::uint32_t threshold;  // 0: nothing is dropped
  float scale;

  /// x ∘ keep / P(keep) for an 8-wide pack of row `row`.
  BERT_HPC_DEVICE void apply(std::int64_t row, std::int64_t pack, float (&x)[width]) const {
    if (threshold == 0) return;
    const core::Philox4 bits =
        dropout_bits(dropout, dropout.sample[rows.sequence[row]], static_cast<std::uint32_t>(rows.position[row]),
                     static_cast<std::uint32_t>(pack));
    for (int j = 0; j < width; ++j) x[j] *= dropout_keeps(bits, j, threshold) ? scale : 0.0f;
  }
};

/// Parameter vectors, one element per column; `bias` may be null.
struct NormParameters {
  const float *bias, *gamma, *beta;
  float epsilon;
};

/// z = residual + dropout(x + bias) in place of x, y = γ·(z − μ)·rstd + β of row `row`. `residual` may be null.
template <class Team, class T>
BERT_HPC_DEVICE void norm_row(const Team& team, const RowSite& site, std::int64_t row, std::int64_t columns, T* x,
                              const T* residual, const NormParameters& p, T* y, float* mean, float* rstd) {
  float z[Team::held][width];
  const std::int64_t pack_count = count_of(columns);
  const float inverse = 1.0f / static_cast<float>(columns);
  const float center = inverse * team.sum(pack_count, [&](int s, std::int64_t o) {
    const int count = columns_of(o, columns);
    float other[width];
    load(x + o * width, count, z[s]);
    if (p.bias != nullptr) {
      load(p.bias + o * width, count, other);
      for (int j = 0; j < width; ++j) z[s][j] += other[j];
    }
    site.apply(row, o, z[s]);
    if (residual != nullptr) {
      load(residual + o * width, count, other);
      for (int j = 0; j < width; ++j) z[s][j] += other[j];
    }
    store(z[s], count, x + o * width);
    float total = 0.0f;
    for (int j = 0; j < width; ++j) total += j < count ? z[s][j] : 0.0f;
    return total;
  });
  const float squares = team.sum(pack_count, [&](int s, std::int64_t o) {
    const int count = columns_of(o, columns);
    float total = 0.0f;
    for (int j = 0; j < width; ++j) total += j < count ? (z[s][j] - center) * (z[s][j] - center) : 0.0f;
    return total;
  });
  const float factor = 1.0f / std::sqrt(squares * inverse + p.epsilon);
  team.each(pack_count, [&](int s, std::int64_t o) {
    const int count = columns_of(o, columns);
    float gamma[width], beta[width];
    load(p.gamma + o * width, count, gamma);
    load(p.beta + o * width, count, beta);
    for (int j = 0; j < width; ++j) z[s][j] = gamma[j] * ((z[s][j] - center) * factor) + beta[j];
    store(z[s], count, y + o * width);
  });
  if (team.leads()) {
    *mean = center;
    *rstd = factor;
  }
}

/// The sums over rows of norm_row_backward(): none.
struct NoSums {
  BERT_HPC_DEVICE void add_output(int, const float (&)[width], const float (&)[width]) const {}
  BERT_HPC_DEVICE void add_product(int, const float (&)[width]) const {}
};

/// Sums over rows that become the gradients of γ, of β and of the bias before the norm.
template <int held>
struct NormSums {
  float (&sums)[3][held][width];

  BERT_HPC_DEVICE void add_output(int slot, const float (&d_y)[width], const float (&normal)[width]) const {
    for (int j = 0; j < width; ++j) {
      sums[0][slot][j] += d_y[j] * normal[j];
      sums[1][slot][j] += d_y[j];
    }
  }
  BERT_HPC_DEVICE void add_product(int slot, const float (&d_x)[width]) const {
    for (int j = 0; j < width; ++j) sums[2][slot][j] += d_x[j];
  }
};

/// d_z of row `row`, and d_x = dropout(d_z) unless it is null; d_z may be d_y.
template <class Team, class T, class Z, class Sums = NoSums>
BERT_HPC_DEVICE void norm_row_backward(const Team& team, const RowSite& site, std::int64_t row, std::int64_t columns,
                                       const T* d_y, const T* z, const float* gamma, float mean, float rstd, Z* d_z,
                                       T* d_x, const Sums& sums = {}) {
  float g[Team::held][width], normal[Team::held][width];
  const std::int64_t pack_count = count_of(columns);
  const float inverse = 1.0f / static_cast<float>(columns);
  const float sum = inverse * team.sum(pack_count, [&](int s, std::int64_t o) {
    const int count = columns_of(o, columns);
    float weight[width], total = 0.0f;
    load(d_y + o * width, count, g[s]);
    load(gamma + o * width, count, weight);
    load(z + o * width, count, normal[s]);
    for (int j = 0; j < width; ++j) normal[s][j] = (normal[s][j] - mean) * rstd;
    sums.add_output(s, g[s], normal[s]);
    for (int j = 0; j < width; ++j) {
      g[s][j] *= weight[j];
      total += g[s][j];  // 0 past the end of the row
    }
    return total;
  });
  const float product = inverse * team.sum(pack_count, [&](int s, std::int64_t) {
    float total = 0.0f;
    for (int j = 0; j < width; ++j) total += g[s][j] * normal[s][j];
    return total;
  });
  team.each(pack_count, [&](int s, std::int64_t o) {
    const int count = columns_of(o, columns);
    for (int j = 0; j < width; ++j) g[s][j] = rstd * (g[s][j] - sum - normal[s][j] * product);
    store(g[s], count, d_z + o * width);
    if (d_x == nullptr) return;
    site.apply(row, o, g[s]);
    store(g[s], count, d_x + o * width);
    sums.add_product(s, g[s]);
  });
}

/// Contribution of a row's 8-wide pack to the gradients of γ (sums 0 … 7) and β (8 … 15).
template <class T>
struct NormWeightTerm {
  Tensor<const T> d_y, z;
  const float *mean, *rstd;

  BERT_HPC_DEVICE void operator()(std::int64_t row, std::int64_t column, int count, float* sums) const {
    float g[width], x[width];
    load(d_y.row(row) + column, count, g);
    load(z.row(row) + column, count, x);
    const float center = mean[row], factor = rstd[row];
    for (int j = 0; j < width; ++j) {
      sums[j] += g[j] * ((x[j] - center) * factor);
      sums[width + j] += g[j];
    }
  }
};

/// Contribution of a row's 8-wide pack to the column sums.
template <class T>
struct ColumnTerm {
  Tensor<const T> x;

  BERT_HPC_DEVICE void operator()(std::int64_t row, std::int64_t column, int count, float* sums) const {
    float part[width];
    load(x.row(row) + column, count, part);
    for (int j = 0; j < width; ++j) sums[j] += part[j];
  }
};

}  // namespace bert_hpc::ops::packs
