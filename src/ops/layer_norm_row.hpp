// Layer normalisation and the operations before it, for teams that take rows one after the other (packs.hpp): a row is
// read once, stays in registers, and is written once; while it is computed, the next one is on its way. The formulas
// are those of layer_norm.cpp.
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

  /// Coordinates of a row's dropout decisions.
  struct Key {
    std::int64_t sample;
    std::uint32_t position;
  };
  BERT_HPC_DEVICE Key key(std::int64_t row) const {
    if (threshold == 0) return {};
    return {dropout.sample[rows.sequence[row]], static_cast<std::uint32_t>(rows.position[row])};
  }

  /// x ∘ keep / P(keep) for an 8-wide pack of a row.
  BERT_HPC_DEVICE void apply(const Key& row, std::int64_t pack, float (&x)[width]) const {
    if (threshold == 0) return;
    const core::Philox4 bits = dropout_bits(dropout, row.sample, row.position, static_cast<std::uint32_t>(pack));
    for (int j = 0; j < width; ++j) x[j] *= dropout_keeps(bits, j, threshold) ? scale : 0.0f;
  }
};

/// Rows first, first + step, … below `end`.
struct RowWalk {
  std::int64_t first, step, end;
};

/// A vector with an element for each column. Whole rows have the same packs of it, which stay in registers.
template <class Team>
class RowVector {
 public:
  /// `vector` may be null: zeros.
  BERT_HPC_DEVICE RowVector(const Team& team, const float* vector, std::int64_t columns) : vector_(vector) {
    if constexpr (Team::whole) {
      team.each(count_of(columns), [&](int s, std::int64_t o) { read(o, columns, held_[s]); });
    }
  }
  BERT_HPC_DEVICE void get(int s, std::int64_t pack, std::int64_t columns, float (&to)[width]) const {
    if constexpr (Team::whole) {
      for (int j = 0; j < width; ++j) to[j] = held_[s][j];
    } else {
      read(pack, columns, to);
    }
  }

 private:
  BERT_HPC_DEVICE void read(std::int64_t pack, std::int64_t columns, float (&to)[width]) const {
    if (vector_ == nullptr) {
      for (float& x : to) x = 0.0f;
    } else {
      load(vector_ + pack * width, columns_of(pack, columns), to);
    }
  }

  const float* vector_;
  float held_[Team::whole ? Team::held : 1][width];
};

/// The next row of some matrices: whole rows are read before they are needed, others when they are.
template <class Team, class T, int matrices>
class NextRow {
 public:
  BERT_HPC_DEVICE explicit NextRow(const Team& team) : team_(team) {}

  BERT_HPC_DEVICE void start(int matrix, const T* row, [[maybe_unused]] std::int64_t columns) {
    if constexpr (Team::whole) {
      team_.each(count_of(columns),
                 [&](int s, std::int64_t o) { held_[matrix][s] = fetch<true>(row + o * width, width); });
    } else {
      rows_[matrix] = row;
    }
  }
  BERT_HPC_DEVICE Stored<T> get(int matrix, int s, std::int64_t pack, std::int64_t columns) const {
    if constexpr (Team::whole) return held_[matrix][s];
    return fetch(rows_[matrix] + pack * width, columns_of(pack, columns));
  }

 private:
  const Team& team_;
  Stored<T> held_[matrices][Team::whole ? Team::held : 1];
  const T* rows_[matrices] = {};
};

/// Parameter vectors, one element per column. `bias` and `beta` may be null.
struct NormParameters {
  const float *bias, *gamma, *beta;
  float epsilon;
};

/// Operands of the forward pass: see residual_layer_norm_forward().
template <class T>
struct NormForward {
  RowSite site;
  core::Tensor<T> x;
  core::Tensor<const T> residual;  // of null data: none
  core::Tensor<T> y;
  float *mean, *rstd;  // mean: null for an RMS norm
};

/// z = residual + dropout(x + bias) in place of x, y = γ·(z − μ)·rstd + β of a team's rows.
template <class Team, class T>
BERT_HPC_DEVICE void norm_rows(const Team& team, const RowWalk& walk, const NormForward<T>& n,
                               const NormParameters& p) {
  const std::int64_t columns = n.x.columns, pack_count = count_of(columns);
  const float inverse = 1.0f / static_cast<float>(columns);
  const bool added = n.residual.data != nullptr;
  NextRow<Team, T, 2> next(team);
  RowSite::Key next_key{};
  const auto start = [&](std::int64_t row) {
    next.start(0, n.x.row(row), columns);
    if (added) next.start(1, n.residual.row(row), columns);
    next_key = n.site.key(row);
  };
  if (walk.first < walk.end) start(walk.first);
  const RowVector<Team> bias(team, p.bias, columns), gamma(team, p.gamma, columns), beta(team, p.beta, columns);
  for (std::int64_t row = walk.first; row < walk.end; row += walk.step) {
    float z[Team::held][width];
    Stored<T> residual[Team::held];
    team.each(pack_count, [&](int s, std::int64_t o) {
      widen(next.get(0, s, o, columns), z[s]);
      if (added) residual[s] = next.get(1, s, o, columns);
    });
    const RowSite::Key key = next_key;
    if (row + walk.step < walk.end) start(row + walk.step);
    const float sum = sum_of(team, pack_count, [&](int s, std::int64_t o) {
      const int count = Team::whole ? width : columns_of(o, columns);
      float other[width];
      bias.get(s, o, columns, other);
      for (int j = 0; j < width; ++j) z[s][j] += other[j];
      n.site.apply(key, o, z[s]);
      if (added) {
        widen(residual[s], other);
        for (int j = 0; j < width; ++j) z[s][j] += other[j];
      }
      store<Team::whole>(z[s], count, n.x.row(row) + o * width);
      float total = 0.0f;
      for (int j = 0; j < width; ++j) total += j < count ? z[s][j] : 0.0f;
      return total;
    });
    const float center = n.mean == nullptr ? 0.0f : inverse * sum;
    const float squares = sum_of(team, pack_count, [&](int s, std::int64_t o) {
      const int count = Team::whole ? width : columns_of(o, columns);
      float total = 0.0f;
      for (int j = 0; j < width; ++j) total += j < count ? (z[s][j] - center) * (z[s][j] - center) : 0.0f;
      return total;
    });
    const float factor = 1.0f / std::sqrt(squares * inverse + p.epsilon);
    team.each(pack_count, [&](int s, std::int64_t o) {
      float weight[width], shift[width];
      gamma.get(s, o, columns, weight);
      beta.get(s, o, columns, shift);
      for (int j = 0; j < width; ++j) z[s][j] = weight[j] * ((z[s][j] - center) * factor) + shift[j];
      store<Team::whole>(z[s], Team::whole ? width : columns_of(o, columns), n.y.row(row) + o * width);
    });
    if (team.leads()) {
      if (n.mean != nullptr) n.mean[row] = center;
      n.rstd[row] = factor;
    }
  }
}

/// The sums over rows of norm_rows_backward(): none.
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

/// Operands of the backward pass: see residual_layer_norm_backward(). d_z may be d_y, d_x and `more` may have null
/// data.
template <class T, class Z = T>
struct NormBackward {
  RowSite site;
  core::Tensor<const T> d_y, z;
  const float *mean, *rstd;  // mean: null for an RMS norm
  core::Tensor<Z> d_z;
  core::Tensor<T> d_x;
  core::Tensor<const T> more{};
};

/// d_z of a team's rows, and d_x = dropout(d_z).
template <class Team, class T, class Z, class Sums>
BERT_HPC_DEVICE void norm_rows_backward(const Team& team, const RowWalk& walk, const NormBackward<T, Z>& n,
                                        const float* gamma, const Sums& sums) {
  const std::int64_t columns = n.z.columns, pack_count = count_of(columns);
  const float inverse = 1.0f / static_cast<float>(columns);
  NextRow<Team, T, 2> next(team);
  RowSite::Key next_key{};
  float next_mean = 0.0f, next_rstd = 0.0f;
  const auto start = [&](std::int64_t row) {
    next.start(0, n.d_y.row(row), columns);
    next.start(1, n.z.row(row), columns);
    next_key = n.site.key(row);
    if (n.mean != nullptr) next_mean = n.mean[row];
    next_rstd = n.rstd[row];
  };
  if (walk.first < walk.end) start(walk.first);
  const RowVector<Team> weights(team, gamma, columns);
  for (std::int64_t row = walk.first; row < walk.end; row += walk.step) {
    float g[Team::held][width], normal[Team::held][width];
    team.each(pack_count, [&](int s, std::int64_t o) {
      widen(next.get(0, s, o, columns), g[s]);
      widen(next.get(1, s, o, columns), normal[s]);
    });
    const RowSite::Key key = next_key;
    const float mean = next_mean, rstd = next_rstd;
    if (row + walk.step < walk.end) start(row + walk.step);
    float totals[2];  // Σ g, Σ g ∘ ẑ
    team.sums(pack_count, totals, [&](int s, std::int64_t o, float(&part)[2]) {
      float weight[width];
      weights.get(s, o, columns, weight);
      for (int j = 0; j < width; ++j) normal[s][j] = (normal[s][j] - mean) * rstd;
      sums.add_output(s, g[s], normal[s]);
      for (int j = 0; j < width; ++j) {
        g[s][j] *= weight[j];  // 0 past the end of the row
        part[0] += g[s][j];
        part[1] += g[s][j] * normal[s][j];
      }
    });
    const float sum = n.mean == nullptr ? 0.0f : inverse * totals[0], product = inverse * totals[1];
    team.each(pack_count, [&](int s, std::int64_t o) {
      const int count = Team::whole ? width : columns_of(o, columns);
      for (int j = 0; j < width; ++j) g[s][j] = rstd * (g[s][j] - sum - normal[s][j] * product);
      if (n.more.data != nullptr) {
        float other[width];
        load(n.more.row(row) + o * width, count, other);
        for (int j = 0; j < width; ++j) g[s][j] += other[j];
      }
      store<Team::whole>(g[s], count, n.d_z.row(row) + o * width);
      if (n.d_x.data == nullptr) return;
      n.site.apply(key, o, g[s]);
      store<Team::whole>(g[s], count, n.d_x.row(row) + o * width);
      sums.add_product(s, g[s]);
    });
  }
}

}  // namespace bert_hpc::ops::packs
