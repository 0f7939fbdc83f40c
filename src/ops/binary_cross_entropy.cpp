#include "bert_hpc/ops/binary_cross_entropy.hpp"

#include <cmath>

#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {

// With e = exp(−|x|): loss = Σ_j (max(x, 0) − x·y + log(1 + e)) / names, σ = 1 / (1 + e) for x ≥ 0, else e / (1 + e)
void binary_cross_entropy(core::Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                          core::Tensor<float> d_logits) {
  const std::int64_t names = logits.columns;
  const float share = 1.0f / static_cast<float>(names), factor = scale / static_cast<float>(names);
  kernel::for_rows(
      "bert_hpc::ops::binary_cross_entropy", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const float* x = logits.row(i);
        const float* y = targets + i * names;
        float* d_x = d_logits.data == nullptr ? nullptr : d_logits.row(i);
        const float total = team.sum<float>(names, [=](std::int64_t j) {
          const float at = x[j], power = fast_exp(-std::abs(at));
          const float loss = (at > 0.0f ? at : 0.0f) - at * y[j] + std::log1p(power);
          if (d_x != nullptr) d_x[j] = factor * ((at >= 0.0f ? 1.0f : power) / (1.0f + power) - y[j]);
          return loss;
        });
        if (team.leads()) row_loss[i] = total * share;
      });
}

}  // namespace bert_hpc::ops
