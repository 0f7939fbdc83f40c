#include "bert_hpc/ops/span_cross_entropy.hpp"

#include <cmath>

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {

void span_cross_entropy(core::Tensor<const float> logits, const std::int32_t* offsets, const std::int32_t* lengths,
                        std::int64_t sequences, const std::int32_t* spans, float scale, float* row_loss,
                        core::Tensor<float> d_logits) {
  kernel::for_rows(
      "bert_hpc::ops::span_cross_entropy", sequences, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t b) {
        const std::int64_t begin = offsets[b], rows = offsets[b + 1] - begin;
        const std::int64_t count = lengths != nullptr ? lengths[b] : rows;
        float* const loss = row_loss + begin;
        team.each(rows, [=](std::int64_t i) { loss[i] = 0.0f; });
        for (int column = 0; column < 2; ++column) {
          const auto x = [=](std::int64_t i) { return logits.row(begin + i)[column]; };
          const std::int64_t target = spans[2 * b + column];
          const float largest = team.max<float>(count, x(0), x);
          const float total = team.sum<float>(count, [=](std::int64_t i) { return std::exp(x(i) - largest); });
          const float at_target = x(target);
          team.meet();  // each thread has read what one of them replaces below
          if (team.leads()) loss[target] += 0.5f * (std::log(total) - (at_target - largest));
          if (d_logits.data == nullptr) continue;
          const float half = 0.5f * scale;
          team.each(rows - count, [=](std::int64_t i) { d_logits.row(begin + count + i)[column] = 0.0f; });
          team.each(count, [=](std::int64_t i) {
            const float p = std::exp(x(i) - largest) / total;
            d_logits.row(begin + i)[column] = half * (p - (i == target ? 1.0f : 0.0f));
          });
        }
      });
}

}  // namespace bert_hpc::ops
