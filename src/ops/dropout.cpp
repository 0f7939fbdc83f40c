// Dropout on hidden states. One work item draws the bits for a range of columns of a row and applies them while they
// are in registers or the first-level cache; ops/dropout.hpp defines the decision for an element.
#include "bert_hpc/ops/dropout.hpp"

#include "dropout_fill.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

// y = x · keep / P(keep)
template <class T>
void dropout_in(const Dropout& dropout, const TokenRows& rows, Tensor<const T> x, Tensor<T> y) {
  const std::int64_t columns = x.columns;
  if (dropout.probability <= 0.0f) {
    if (x.data != y.data) {
      kernel::for_elements(
          {"bert_hpc::ops::dropout_copy", kernel::bytes_of<T, T>(y.size())}, x.rows, columns,
          KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = x(i, j); });
    }
    return;
  }
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  const float scale = dropout_scale(threshold);
  const std::int64_t runs = kernel::divide_up(columns, kernel::dropout_columns);
  const Dropout site = dropout;
  const TokenRows r = rows;
  kernel::for_items(
      {"bert_hpc::ops::dropout", kernel::bytes_of<T, T>(y.size())}, x.rows * runs, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t i = item / runs, begin = item % runs * kernel::dropout_columns;
        const std::int64_t count =
            columns - begin < kernel::dropout_columns ? columns - begin : kernel::dropout_columns;
        std::uint16_t bits[kernel::dropout_columns];
        fill_dropout_bits(site, site.sample[r.sequence[i]], static_cast<std::uint32_t>(r.position[i]),
                          static_cast<std::uint32_t>(begin / 8), kernel::divide_up(count, 8), bits);
        apply_dropout(count, bits, threshold, scale, x.row(i) + begin, y.row(i) + begin);
      });
}

}  // namespace

void dropout(const Dropout& dropout, const TokenRows& rows, ConstMatrix x, Matrix y) {
  core::with_type(x.type, [&]<class T>() { dropout_in<T>(dropout, rows, x.as<T>(), y.as<T>()); });
}

}  // namespace bert_hpc::ops
