#include "bert_hpc/ops/listwise_cross_entropy.hpp"

#include <cmath>

#include "kernel.hpp"
#include "kernel_lists.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {

// loss = log Σ_j exp(x_j − m) + m − Σ_relevant x_j / relevant,  d_x = scale · (exp(x − m) / Σ − relevant_j / relevant)
void listwise_cross_entropy(core::Tensor<const float> logits, const std::int32_t* lists, std::int64_t count,
                            const float* relevant, float scale, float* row_loss, core::Tensor<float> d_logits) {
  const core::Tensor<float> d(d_logits.data, logits.rows, 1, d_logits.stride);
  kernel::clear_lists("bert_hpc::ops::listwise_cross_entropy", lists, count, d, row_loss);
  kernel::for_rows(
      "bert_hpc::ops::listwise_cross_entropy", count, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t q) {
        const std::int64_t begin = lists[2 * q], candidates = lists[2 * q + 1] - begin;
        const float* y = relevant + begin;
        const auto x = [=](std::int64_t j) { return logits.row(begin + j)[0]; };
        const float largest = team.max<float>(candidates, x(0), x);
        const float total = team.sum<float>(candidates, [=](std::int64_t j) { return std::exp(x(j) - largest); });
        const float right = team.sum<float>(candidates, [=](std::int64_t j) { return y[j]; });
        const float below = team.sum<float>(candidates, [=](std::int64_t j) { return y[j] * (largest - x(j)); });
        if (team.leads()) row_loss[begin] = std::log(total) + below / right;
        if (d_logits.data == nullptr) return;
        team.meet();  // each thread has read what one of them replaces below
        team.each(candidates, [=](std::int64_t j) {
          const float p = std::exp(x(j) - largest) / total;
          d_logits.row(begin + j)[0] = scale * (p - y[j] / right);
        });
      });
}

}  // namespace bert_hpc::ops
