#include "bert_hpc/ops/cosine_similarity_loss.hpp"

#include <cmath>

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {

// ∂cos / ∂a = (b / |b| − cos · a / |a|) / |a|
void cosine_similarity_loss(core::Tensor<const float> embeddings, const std::int32_t* pairs, std::int64_t count,
                            const float* texts, float scale, float* row_loss, core::Tensor<float> d_embeddings) {
  constexpr float least_length = 1e-8f;  // as PyTorch's cosine_similarity()
  kernel::for_rows(
      "bert_hpc::ops::cosine_similarity_loss", count, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t pair) {
        const std::int64_t first = pairs[2 * pair], second = first + 1, columns = embeddings.columns;
        const float *const a = embeddings.row(first), *const b = embeddings.row(second);
        const float aa = team.sum<float>(columns, [=](std::int64_t j) { return a[j] * a[j]; });
        const float bb = team.sum<float>(columns, [=](std::int64_t j) { return b[j] * b[j]; });
        const float ab = team.sum<float>(columns, [=](std::int64_t j) { return a[j] * b[j]; });
        const float a_length = std::sqrt(aa), b_length = std::sqrt(bb);
        const float a_inverse = 1.0f / (a_length < least_length ? least_length : a_length);
        const float b_inverse = 1.0f / (b_length < least_length ? least_length : b_length);
        const float cosine = ab * a_inverse * b_inverse, error = cosine - texts[2 * first + 1];
        if (team.leads()) {
          row_loss[first] = error * error;
          row_loss[second] = 0.0f;
        }
        if (d_embeddings.data == nullptr) return;
        team.meet();  // each thread has read what others replace below
        float *const d_a = d_embeddings.row(first), *const d_b = d_embeddings.row(second);
        const float factor = 2.0f * scale * error;
        team.each(columns, [=](std::int64_t j) {
          const float from_a = a[j] * a_inverse, from_b = b[j] * b_inverse;
          d_a[j] = factor * a_inverse * (from_b - cosine * from_a);
          d_b[j] = factor * b_inverse * (from_a - cosine * from_b);
        });
      });
}

}  // namespace bert_hpc::ops
