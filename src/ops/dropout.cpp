// Dropout on hidden states. On CUDA devices a thread draws the bits of one pack of columns (dropout_pack.hpp).
// Elsewhere one work item draws the bits for a range of columns of a row and applies them while they are in registers
// or the first-level cache. ops/dropout.hpp defines the decision for an element.
#include "bert_hpc/ops/dropout.hpp"

#include "dropout_fill.hpp"
#include "dropout_pack.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

#if !BERT_HPC_WARPS
/// y = dropout(x) of `count` columns of a row, the first of which is `column` of the whole row. `aligned`: it begins a
/// block of bits, so that these stay in registers on GPUs.
template <bool aligned, class T>
KOKKOS_INLINE_FUNCTION void drop_range(const Dropout& site, std::uint32_t threshold, std::int64_t sample,
                                       std::uint32_t row, std::int64_t column, std::int64_t count, float scale,
                                       const T* x, T* y) {
  constexpr std::int64_t room = kernel::dropout_columns + (aligned ? 0 : 64);
  const std::int64_t skipped = aligned ? 0 : column % 8;
  std::uint16_t bits[room];
  fill_dropout_bits(site, sample, row, static_cast<std::uint32_t>(column / 8), kernel::divide_up(count + skipped, 8),
                    bits);
  apply_dropout(count, bits + skipped, threshold, scale, x, y);
}
#endif

// y = x · keep / P(keep)
template <bool aligned, class T>
void dropout_in(const Dropout& dropout, const TokenRows& rows, Tensor<const T> x, Tensor<T> y) {
  const std::int64_t columns = x.columns;
  if (dropout.probability <= 0.0f) {
    if (x.data != y.data) {
      kernel::map(
          "bert_hpc::ops::dropout_copy", x, y, KOKKOS_LAMBDA(std::int64_t, float value) { return value; });
    }
    return;
  }
  const kernel::Label label("bert_hpc::ops::dropout", kernel::bytes_of<T, T>(y.size()));
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  const float scale = dropout_scale(threshold);
#if BERT_HPC_WARPS
  const packs::DropoutPack<aligned, T> body{dropout, rows, threshold, scale, x, y};
  kernel::for_packs(label, x.rows, columns == 0 ? 0 : columns + body.skipped(), body);
#else
  const std::int64_t runs = kernel::divide_up(columns, kernel::dropout_columns);
  const Dropout site = dropout;
  const TokenRows r = rows;
  kernel::for_items(
      label, x.rows * runs, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t i = item / runs, begin = item % runs * kernel::dropout_columns;
        const std::int64_t count =
            columns - begin < kernel::dropout_columns ? columns - begin : kernel::dropout_columns;
        drop_range<aligned>(site, threshold, site.sample[r.sequence[i]], static_cast<std::uint32_t>(r.position[i]),
                            site.first_column + begin, count, scale, x.row(i) + begin, y.row(i) + begin);
      });
#endif
}

}  // namespace

void dropout(const Dropout& dropout, const TokenRows& rows, ConstMatrix x, Matrix y) {
  core::with_type(x.type, [&]<class T>() {
    if (dropout.first_column % 8 == 0) return dropout_in<true>(dropout, rows, x.as<T>(), y.as<T>());
    dropout_in<false>(dropout, rows, x.as<T>(), y.as<T>());
  });
}

}  // namespace bert_hpc::ops
