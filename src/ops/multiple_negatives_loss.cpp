// No matrix of similarities is stored: the second pass computes them again, so that memory is that of the embeddings.
#include "bert_hpc/ops/multiple_negatives_loss.hpp"

#include <cmath>

#include "bert_hpc/core/micro_batch.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;
using kernel::RowTeam;

constexpr float least_length = 1e-12f;  // as PyTorch's normalize()

/// Rows of a batch, their roles and similarities.
struct Batch {
  Tensor<const float> x;
  const float* texts;     // (rows, 4)
  const float* inverse;   // (rows): 1 / length
  const float* log_sums;  // (rows): log Σ exp of the logits of an anchor, or of a positive with `symmetric`
  float scale;
  bool symmetric, skips_duplicates;

  KOKKOS_INLINE_FUNCTION const float* text(std::int64_t r) const { return texts + core::TextTargets::columns * r; }
  KOKKOS_INLINE_FUNCTION bool is_anchor(std::int64_t r) const { return text(r)[0] == 0.0f; }
  KOKKOS_INLINE_FUNCTION bool is_positive(std::int64_t r) const { return text(r)[0] == 1.0f; }
  KOKKOS_INLINE_FUNCTION bool are_equal(std::int64_t a, std::int64_t b) const {
    return text(a)[2] == text(b)[2] && text(a)[3] == text(b)[3];
  }
  /// Whether the candidate is no negative of the anchor, of which it is not the positive.
  KOKKOS_INLINE_FUNCTION bool is_duplicate(std::int64_t anchor, std::int64_t candidate) const {
    return are_equal(candidate, anchor + 1) || are_equal(candidate, anchor) ||
           (is_positive(candidate) && are_equal(candidate - 1, anchor));
  }
  KOKKOS_INLINE_FUNCTION bool has_loss(std::int64_t r) const { return is_anchor(r) || (symmetric && is_positive(r)); }
  /// Whether `other` is in the sum of row r's loss: of an anchor the candidates, of a positive the anchors.
  KOKKOS_INLINE_FUNCTION bool compares(std::int64_t r, std::int64_t other) const {
    if (is_anchor(r) == is_anchor(other)) return false;
    const std::int64_t anchor = is_anchor(r) ? r : other, candidate = is_anchor(r) ? other : r;
    return !skips_duplicates || candidate == anchor + 1 || !is_duplicate(anchor, candidate);
  }
  KOKKOS_INLINE_FUNCTION float cosine(const RowTeam& team, std::int64_t a, std::int64_t b) const {
    const float *const first = x.row(a), *const second = x.row(b);
    const float product = team.sum<float>(x.columns, [=](std::int64_t j) { return first[j] * second[j]; });
    return product * inverse[a] * inverse[b];
  }
  /// The other row of the pair of an anchor or a positive.
  KOKKOS_INLINE_FUNCTION std::int64_t partner(std::int64_t r) const { return is_anchor(r) ? r + 1 : r - 1; }
  /// The gradient of the sum of all losses at x_ij of an anchor i and a candidate j.
  KOKKOS_INLINE_FUNCTION float weight(std::int64_t anchor, std::int64_t candidate, float logit) const {
    const float share = symmetric ? 0.5f : 1.0f, is_pair = candidate == anchor + 1 ? 1.0f : 0.0f;
    float weight = share * (std::exp(logit - log_sums[anchor]) - is_pair);
    if (symmetric && is_positive(candidate)) weight += share * (std::exp(logit - log_sums[candidate]) - is_pair);
    return weight;
  }
};

void find_lengths(const Batch& batch, float* inverse) {
  kernel::for_rows(
      "bert_hpc::ops::multiple_negatives_lengths", batch.x.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t r) {
        const float* const row = batch.x.row(r);
        const float squares = team.sum<float>(batch.x.columns, [=](std::int64_t j) { return row[j] * row[j]; });
        const float length = std::sqrt(squares);
        if (team.leads()) inverse[r] = 1.0f / (length < least_length ? least_length : length);
      });
}

/// Sums relative to the largest logit so far.
void find_log_sums(const Batch& batch, float* log_sums) {
  kernel::for_rows(
      "bert_hpc::ops::multiple_negatives_sums", batch.x.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t r) {
        if (!batch.has_loss(r)) return;
        float largest = batch.scale * batch.cosine(team, r, batch.partner(r)), sum = 0.0f;
        for (std::int64_t other = 0; other < batch.x.rows; ++other) {
          if (!batch.compares(r, other)) continue;
          const float logit = batch.scale * batch.cosine(team, r, other);
          if (logit > largest) {
            sum *= std::exp(largest - logit);
            largest = logit;
          }
          sum += std::exp(logit - largest);
        }
        if (team.leads()) log_sums[r] = largest + std::log(sum);
      });
}

/// With e = x / |x| and g the gradient at e: d_x += (g − (g · e) e) / |x|.
void find_gradients(const Batch& batch, std::int64_t begin, float gradient_scale, float* row_loss, Tensor<float> d) {
  kernel::for_rows(
      "bert_hpc::ops::multiple_negatives_gradients", d.rows, KOKKOS_LAMBDA(const RowTeam& team, std::int64_t own) {
        const std::int64_t r = begin + own;
        float* const to = d.row(own);
        const float own_factor = gradient_scale * batch.inverse[r];
        const bool is_anchor = batch.is_anchor(r);
        float along = 0.0f, loss = 0.0f;
        for (std::int64_t other = 0; other < batch.x.rows; ++other) {
          if (!batch.compares(r, other)) continue;
          const float cosine = batch.cosine(team, r, other), logit = batch.scale * cosine;
          const float weight =
              batch.scale * (is_anchor ? batch.weight(r, other, logit) : batch.weight(other, r, logit));
          const float *const from = batch.x.row(other), factor = own_factor * weight * batch.inverse[other];
          team.each(d.columns, [=](std::int64_t j) { to[j] += factor * from[j]; });
          along += weight * cosine;
          if (batch.has_loss(r) && other == batch.partner(r)) loss = batch.log_sums[r] - logit;
        }
        const float *const row = batch.x.row(r), factor = own_factor * along * batch.inverse[r];
        team.each(d.columns, [=](std::int64_t j) { to[j] -= factor * row[j]; });
        if (team.leads()) row_loss[own] += batch.symmetric ? 0.5f * loss : loss;
      });
}

}  // namespace

void multiple_negatives_loss(Tensor<const float> embeddings, const float* texts, const MultipleNegatives& options,
                             std::int64_t begin, float gradient_scale, float* scratch, float* row_loss,
                             Tensor<float> d_embeddings) {
  float *const inverse = scratch, *const log_sums = scratch + embeddings.rows;
  const Batch batch{.x = embeddings,
                    .texts = texts,
                    .inverse = inverse,
                    .log_sums = log_sums,
                    .scale = options.scale,
                    .symmetric = options.symmetric,
                    .skips_duplicates = options.skips_duplicates};
  find_lengths(batch, inverse);
  find_log_sums(batch, log_sums);
  find_gradients(batch, begin, gradient_scale, row_loss, d_embeddings);
}

}  // namespace bert_hpc::ops
