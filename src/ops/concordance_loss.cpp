#include "bert_hpc/ops/concordance_loss.hpp"

#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {

// With n rows, C = Σ (x − mx)(y − my) and D = Σ (x − mx)² + Σ (y − my)² + n (mx − my)²:
//   L = 1 − 2 C / D,  ∂(n L) / ∂x_i = −2 n · ((y_i − my) · D − 2 C · (x_i − my)) / D²
// Sums are doubles: the squares of two passes cancel nothing, and a step has few rows.
void concordance_loss(core::Tensor<const float> predicted, const float* labels, std::int64_t begin, float scale,
                      float* row_loss, core::Tensor<float> d_predicted) {
  kernel::for_rows(
      "bert_hpc::ops::concordance_loss", d_predicted.rows > 0 ? 1 : 0,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t) {
        const std::int64_t rows = predicted.rows;
        const auto count = static_cast<double>(rows);
        const auto x = [=](std::int64_t i) { return static_cast<double>(predicted.row(i)[0]); };
        const auto y = [=](std::int64_t i) { return static_cast<double>(labels[i]); };
        const double x_mean = team.sum<double>(rows, x) / count, y_mean = team.sum<double>(rows, y) / count;
        const double covariance =
            team.sum<double>(rows, [=](std::int64_t i) { return (x(i) - x_mean) * (y(i) - y_mean); });
        const double spread = team.sum<double>(rows, [=](std::int64_t i) {
          return (x(i) - x_mean) * (x(i) - x_mean) + (y(i) - y_mean) * (y(i) - y_mean);
        });
        const double divisor = spread + count * (x_mean - y_mean) * (x_mean - y_mean);
        const bool defined = divisor != 0;  // not `> 0`: the loss of a NaN is NaN
        const double loss = defined ? 1.0 - 2.0 * covariance / divisor : 0.0;
        const double factor = defined ? -2.0 * count * static_cast<double>(scale) / (divisor * divisor) : 0.0;
        team.each(d_predicted.rows, [=](std::int64_t i) {
          row_loss[i] = static_cast<float>(loss);
          const double from_mean = y(begin + i) - y_mean;
          d_predicted.row(i)[0] =
              static_cast<float>(factor * (from_mean * divisor - 2.0 * covariance * (x(begin + i) - y_mean)));
        });
      });
}

}  // namespace bert_hpc::ops
