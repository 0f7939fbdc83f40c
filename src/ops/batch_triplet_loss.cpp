// Two matrices (rows, rows) are kept, distances and their weights in the loss, as each triplet reads two distances of
// its anchor. They are small beside the embeddings' activations: 8 bytes for each pair of texts.
#include "bert_hpc/ops/batch_triplet_loss.hpp"

#include <cmath>

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;
using kernel::RowTeam;
using Kind = BatchTriplets::Kind;

constexpr float least_length = 1e-8f;  // as PyTorch's cosine_similarity()

struct Batch {
  Tensor<const float> x;
  const std::int32_t* classes;
  float* inverse;  ///< (rows): 1 / length; unused for Euclidean distances
  float* losses;   ///< (rows): sum over the anchor's triplets
  float* counts;   ///< (rows): number of the anchor's triplets with a loss, of Kind::all
  float* share;    ///< (1): rows / summands of the mean
  float* distances;
  float* weights;  ///< (rows, rows): ∂(Σ of the anchor's losses) / ∂d(anchor, other)
  Kind kind;
  bool is_cosine;
  float margin;

  KOKKOS_INLINE_FUNCTION float* distances_of(std::int64_t r) const { return distances + r * x.rows; }
  KOKKOS_INLINE_FUNCTION float* weights_of(std::int64_t r) const { return weights + r * x.rows; }
  KOKKOS_INLINE_FUNCTION bool is_positive(std::int64_t anchor, std::int64_t other) const {
    return other != anchor && classes[other] == classes[anchor];
  }
  KOKKOS_INLINE_FUNCTION bool is_negative(std::int64_t anchor, std::int64_t other) const {
    return classes[other] != classes[anchor];
  }
};

void find_lengths(const Batch& batch) {
  kernel::for_rows(
      "bert_hpc::ops::batch_triplet_lengths", batch.x.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t r) {
        const float* const row = batch.x.row(r);
        const float length =
            std::sqrt(team.sum<float>(batch.x.columns, [=](std::int64_t j) { return row[j] * row[j]; }));
        if (team.leads()) batch.inverse[r] = 1.0f / (length < least_length ? least_length : length);
      });
}

void find_distances(const Batch& batch) {
  kernel::for_rows(
      "bert_hpc::ops::batch_triplet_distances", batch.x.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t r) {
        const float* const a = batch.x.row(r);
        const std::int64_t columns = batch.x.columns;
        for (std::int64_t other = 0; other < batch.x.rows; ++other) {
          const float* const b = batch.x.row(other);
          float distance;
          if (batch.is_cosine) {
            const float product = team.sum<float>(columns, [=](std::int64_t j) { return a[j] * b[j]; });
            distance = 1.0f - product * batch.inverse[r] * batch.inverse[other];
          } else {
            distance =
                std::sqrt(team.sum<float>(columns, [=](std::int64_t j) { return (a[j] - b[j]) * (a[j] - b[j]); }));
          }
          if (team.leads()) batch.distances_of(r)[other] = distance;
        }
      });
}

/// Maxima and minima skip NaN: the distance of an embedding to itself, which is NaN if the embedding is not finite,
/// makes its loss NaN.
KOKKOS_INLINE_FUNCTION float zero_or_nan(float of_itself) {
  return 0.0f * of_itself;
}

/// Index of the anchor's farthest positive, or of its nearest negative; −1 if it has none.
KOKKOS_INLINE_FUNCTION std::int64_t farthest_positive(const Batch& batch, const RowTeam& team, std::int64_t anchor) {
  const float* const d = batch.distances_of(anchor);
  const std::int64_t found = team.first_of_largest(
      batch.x.rows, [=](std::int64_t j) { return batch.is_positive(anchor, j) ? d[j] : -INFINITY; });
  return batch.is_positive(anchor, found) ? found : -1;
}

KOKKOS_INLINE_FUNCTION std::int64_t nearest_negative(const Batch& batch, const RowTeam& team, std::int64_t anchor) {
  const float* const d = batch.distances_of(anchor);
  const std::int64_t found = team.first_of_largest(
      batch.x.rows, [=](std::int64_t j) { return batch.is_negative(anchor, j) ? -d[j] : -INFINITY; });
  return batch.is_negative(anchor, found) ? found : -1;
}

KOKKOS_INLINE_FUNCTION void weigh_hardest(const Batch& batch, const RowTeam& team, std::int64_t anchor) {
  const float* const d = batch.distances_of(anchor);
  float* const weights = batch.weights_of(anchor);
  const std::int64_t far = farthest_positive(batch, team, anchor), near = nearest_negative(batch, team, anchor);
  team.each(batch.x.rows, [=](std::int64_t j) { weights[j] = 0.0f; });
  team.meet();
  if (!team.leads()) return;
  batch.losses[anchor] = zero_or_nan(d[anchor]);
  if (near < 0) return;
  const float difference = (far < 0 ? 0.0f : d[far]) - d[near];
  float weight = 0.0f;
  if (batch.kind == Kind::hard) {
    const float excess = difference + batch.margin;
    if (excess <= 0.0f) return;  // not if it is NaN
    batch.losses[anchor] += excess;
    weight = 1.0f;
  } else {
    // log(1 + exp(x)) without overflow; its derivative is 1 / (1 + exp(−x)).
    const float size = std::fabs(difference), tail = std::exp(-size);
    batch.losses[anchor] += (difference > 0.0f ? difference : 0.0f) + std::log1p(tail);
    weight = difference > 0.0f ? 1.0f / (1.0f + tail) : tail / (1.0f + tail);
  }
  if (far >= 0) weights[far] = weight;
  weights[near] = -weight;
}

/// The negative of a pair: the nearest that is farther than the positive, or the farthest; −1 if there is none.
KOKKOS_INLINE_FUNCTION std::int64_t semi_hard_negative(const Batch& batch, std::int64_t anchor, float of_positive) {
  const float* const d = batch.distances_of(anchor);
  std::int64_t nearest = -1, farthest = -1;
  for (std::int64_t j = 0; j < batch.x.rows; ++j) {
    if (!batch.is_negative(anchor, j)) continue;
    if (d[j] > of_positive && (nearest < 0 || d[j] < d[nearest])) nearest = j;
    if (farthest < 0 || d[j] > d[farthest]) farthest = j;
  }
  return nearest >= 0 ? nearest : farthest;
}

KOKKOS_INLINE_FUNCTION void weigh_semi_hard(const Batch& batch, const RowTeam& team, std::int64_t anchor) {
  const float* const d = batch.distances_of(anchor);
  float* const weights = batch.weights_of(anchor);
  const auto excess = [&](std::int64_t positive, std::int64_t negative) {
    return d[positive] - d[negative] + batch.margin;
  };
  // Weights of positives hold the index of their negative until the negatives have counted them; −1 without a loss.
  team.each(batch.x.rows, [=](std::int64_t j) {
    if (!batch.is_positive(anchor, j)) return;
    const std::int64_t negative = semi_hard_negative(batch, anchor, d[j]);
    weights[j] = negative >= 0 && !(excess(j, negative) <= 0.0f) ? static_cast<float>(negative) : -1.0f;
  });
  team.meet();
  const float loss = team.sum<float>(batch.x.rows, [=](std::int64_t j) {
    const bool counts = batch.is_positive(anchor, j) && weights[j] >= 0.0f;
    return counts ? excess(j, static_cast<std::int64_t>(weights[j])) : 0.0f;
  });
  team.each(batch.x.rows, [=](std::int64_t j) {
    if (!batch.is_negative(anchor, j)) return;
    float count = 0.0f;
    for (std::int64_t positive = 0; positive < batch.x.rows; ++positive) {
      if (batch.is_positive(anchor, positive) && weights[positive] == static_cast<float>(j)) count += 1.0f;
    }
    weights[j] = -count;
  });
  team.meet();
  team.each(batch.x.rows, [=](std::int64_t j) {
    if (!batch.is_negative(anchor, j)) weights[j] = batch.is_positive(anchor, j) && weights[j] >= 0.0f ? 1.0f : 0.0f;
  });
  if (team.leads()) batch.losses[anchor] = zero_or_nan(d[anchor]) + loss;
}

KOKKOS_INLINE_FUNCTION void weigh_all(const Batch& batch, const RowTeam& team, std::int64_t anchor) {
  const float* const d = batch.distances_of(anchor);
  float* const weights = batch.weights_of(anchor);
  const auto has_loss = [&](std::int64_t positive, std::int64_t negative) {
    return batch.is_positive(anchor, positive) && batch.is_negative(anchor, negative) &&
           !(d[positive] - d[negative] + batch.margin <= 0.0f);
  };
  team.each(batch.x.rows, [=](std::int64_t j) {
    float count = 0.0f;
    for (std::int64_t other = 0; other < batch.x.rows; ++other) {
      if (has_loss(j, other)) count += 1.0f;
      if (has_loss(other, j)) count -= 1.0f;
    }
    weights[j] = count;
  });
  team.meet();
  // Doubles: the sum of differences of distances is one of products with counts up to `rows`.
  const auto loss = [=](std::int64_t j) {
    return weights[j] == 0.0f ? 0.0 : static_cast<double>(weights[j]) * static_cast<double>(d[j]);
  };
  const auto count = [=](std::int64_t j) { return weights[j] > 0.0f ? static_cast<double>(weights[j]) : 0.0; };
  const double distances = team.sum<double>(batch.x.rows, loss), triplets = team.sum<double>(batch.x.rows, count);
  if (!team.leads()) return;
  batch.losses[anchor] = static_cast<float>(distances + triplets * static_cast<double>(batch.margin));
  batch.counts[anchor] = static_cast<float>(triplets);
}

void find_weights(const Batch& batch) {
  kernel::for_rows(
      "bert_hpc::ops::batch_triplet_weights", batch.x.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t anchor) {
        if (batch.kind == Kind::semi_hard) return weigh_semi_hard(batch, team, anchor);
        if (batch.kind == Kind::all) return weigh_all(batch, team, anchor);
        weigh_hardest(batch, team, anchor);
      });
}

/// Summands of the mean: anchors; pairs of an anchor and a positive; or triplets with a loss.
void find_share(const Batch& batch) {
  kernel::sum_then(
      "bert_hpc::ops::batch_triplet_share", batch.x.rows,
      KOKKOS_LAMBDA(std::int64_t r) {
        if (batch.kind == Kind::all) return static_cast<double>(batch.counts[r]);
        if (batch.kind != Kind::semi_hard) return 1.0;
        double pairs = 0.0;
        for (std::int64_t j = 0; j < batch.x.rows; ++j) pairs += batch.is_positive(r, j) ? 1.0 : 0.0;
        return pairs;
      },
      KOKKOS_LAMBDA(double summands) {
        const auto rows = static_cast<double>(batch.x.rows);
        *batch.share = summands > 0.0 ? static_cast<float>(rows / summands) : 0.0f;
      });
}

/// d(|a − b|) = (a − b) / |a − b|, 0 for equal embeddings; d(1 − cos(a, b)) at a = (cos · a / |a| − b / |b|) / |a|.
void find_gradients(const Batch& batch, std::int64_t begin, float gradient_scale, float* row_loss, Tensor<float> d) {
  kernel::for_rows(
      "bert_hpc::ops::batch_triplet_gradients", d.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t own) {
        const std::int64_t r = begin + own;
        const float *const a = batch.x.row(r), *const distances = batch.distances_of(r);
        float* const to = d.row(own);
        const float factor = gradient_scale * *batch.share;
        float at_own = 0.0f;
        team.each(d.columns, [=](std::int64_t j) { to[j] = 0.0f; });
        for (std::int64_t other = 0; other < batch.x.rows; ++other) {
          const float weight = batch.weights_of(r)[other] + batch.weights_of(other)[r], distance = distances[other];
          if (weight == 0.0f || (!batch.is_cosine && distance == 0.0f)) continue;
          const float *const b = batch.x.row(other), scaled = factor * weight;
          float across;
          if (batch.is_cosine) {
            across = -scaled * batch.inverse[r] * batch.inverse[other];
            at_own += scaled * (1.0f - distance) * batch.inverse[r] * batch.inverse[r];
          } else {
            across = -scaled / distance;
            at_own -= across;
          }
          team.each(d.columns, [=](std::int64_t j) { to[j] += across * b[j]; });
        }
        team.each(d.columns, [=](std::int64_t j) { to[j] += at_own * a[j]; });
        if (team.leads()) row_loss[own] = *batch.share * batch.losses[r];
      });
}

}  // namespace

void batch_triplet_loss(Tensor<const float> embeddings, const std::int32_t* classes, const BatchTriplets& options,
                        std::int64_t begin, float gradient_scale, float* scratch, float* row_loss,
                        Tensor<float> d_embeddings) {
  const std::int64_t rows = embeddings.rows;
  float *const vectors = scratch, *const distances = scratch + 3 * rows + 1;
  const Batch batch{.x = embeddings,
                    .classes = classes,
                    .inverse = vectors,
                    .losses = vectors + rows,
                    .counts = vectors + 2 * rows,
                    .share = vectors + 3 * rows,
                    .distances = distances,
                    .weights = distances + rows * rows,
                    .kind = options.kind,
                    .is_cosine = options.similarity == Similarity::cosine,
                    .margin = options.margin};
  if (batch.is_cosine) find_lengths(batch);
  find_distances(batch);
  find_weights(batch);
  find_share(batch);
  find_gradients(batch, begin, gradient_scale, row_loss, d_embeddings);
}

}  // namespace bert_hpc::ops
