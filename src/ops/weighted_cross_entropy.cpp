#include "bert_hpc/ops/weighted_cross_entropy.hpp"

#include <cmath>

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

/// A class's terms of a row.
struct ClassTerms {
  float loss;        ///< −t · (1 − p)^γ · log p
  float derivative;  ///< of `loss`, by log p
};

// With q = 1 − p: d(−q^γ · log p) / d(log p) = q^γ · (γ · p · log p / q − 1), where log p / q → −1 for q → 0
BERT_HPC_DEVICE ClassTerms class_terms(float target, float log_p, float gamma) {
  if (gamma == 0.0f) return {-target * log_p, -target};
  const float q = -std::expm1(log_p), power = std::pow(q, gamma);
  const float ratio = q > 0.0f ? log_p / q : -1.0f;
  return {-target * power * log_p, target * power * (gamma * (1.0f - q) * ratio - 1.0f)};
}

}  // namespace

// With g_c = d loss / d(log p_c): d_x_j = scale · (g_j − p_j · Σ_c g_c)
void weighted_cross_entropy(core::Tensor<const float> logits, const std::int32_t* labels,
                            const CrossEntropyOptions& options, float scale, float* row_loss,
                            core::Tensor<float> d_logits) {
  const std::int64_t columns = logits.columns;
  const float* weights = options.class_weights;
  const float gamma = options.focal_gamma, at_label = 1.0f - options.label_smoothing;
  const float everywhere = options.label_smoothing / static_cast<float>(columns);
  kernel::for_rows(
      "bert_hpc::ops::weighted_cross_entropy", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const std::int64_t label = labels[i];
        const float* x = logits.row(i);
        float* d_x = d_logits.data == nullptr ? nullptr : d_logits.row(i);
        const float largest = team.max<float>(columns, x[0], [=](std::int64_t j) { return x[j]; });
        const float total = team.sum<float>(columns, [=](std::int64_t j) { return std::exp(x[j] - largest); });
        const float log_total = std::log(total);
        const auto terms = [=](std::int64_t j) {
          const float target = everywhere + (j == label ? at_label : 0.0f);
          const float weight = weights == nullptr ? 1.0f : weights[j];
          return class_terms(weight * target, x[j] - largest - log_total, gamma);
        };
        const float loss = team.sum<float>(columns, [=](std::int64_t j) { return terms(j).loss; });
        if (team.leads()) row_loss[i] = loss;
        if (d_x == nullptr) return;
        const float slope = team.sum<float>(columns, [=](std::int64_t j) { return terms(j).derivative; });
        team.each(columns, [=](std::int64_t j) {
          const float p = std::exp(x[j] - largest - log_total);
          d_x[j] = scale * (terms(j).derivative - p * slope);
        });
      });
}

}  // namespace bert_hpc::ops
