// Pooling of the rows of each sequence; a GPU's threads have a pack of columns each.
#include "bert_hpc/ops/pooling.hpp"

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;

/// One function of the rows of a sequence, as a running value.
template <Pooling pooling>
KOKKOS_INLINE_FUNCTION float pooled(float value, float x) {
  if constexpr (pooling == Pooling::mean) return value + x;
  return value > x ? value : x;
}

/// Rows that are pooled.
struct PooledRows {
  std::int64_t first, count;
};

template <Pooling pooling>
KOKKOS_INLINE_FUNCTION PooledRows rows_of(const std::int32_t* offsets, const std::int32_t* lengths, std::int64_t b) {
  const std::int64_t first = offsets[b], count = lengths != nullptr ? lengths[b] : offsets[b + 1] - offsets[b];
  if constexpr (pooling == Pooling::last) return {first + count - 1, 1};
  return {first, count};
}

// y_bj = pooled(x_tj) over the rows t of sequence b
template <Pooling pooling, class T>
void pool_in(Tensor<const T> x, const std::int32_t* offsets, const std::int32_t* lengths, Tensor<float> y) {
  const kernel::Label label("bert_hpc::ops::pool_rows", kernel::bytes_of<T>(x.size()));
#if BERT_HPC_WARPS
  kernel::for_packs(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t b, std::int64_t begin, int count) {
        const PooledRows rows = rows_of<pooling>(offsets, lengths, b);
        float value[packs::width], next[packs::width];
        packs::load(x.row(rows.first) + begin, count, value);
        for (std::int64_t t = 1; t < rows.count; ++t) {
          packs::load(x.row(rows.first + t) + begin, count, next);
          for (int j = 0; j < packs::width; ++j) value[j] = pooled<pooling>(value[j], next[j]);
        }
        if (pooling == Pooling::mean) {
          for (float& v : value) v /= static_cast<float>(rows.count);
        }
        packs::store(value, count, y.row(b) + begin);
      });
#else
  kernel::for_items(
      label, y.rows, KOKKOS_LAMBDA(std::int64_t b) {
        const PooledRows rows = rows_of<pooling>(offsets, lengths, b);
        float* const value = y.row(b);
        const T* const begin = x.row(rows.first);
        for (std::int64_t j = 0; j < y.columns; ++j) value[j] = static_cast<float>(begin[j]);
        for (std::int64_t t = 1; t < rows.count; ++t) {
          const T* const next = x.row(rows.first + t);
#pragma omp simd
          for (std::int64_t j = 0; j < y.columns; ++j)
            value[j] = pooled<pooling>(value[j], static_cast<float>(next[j]));
        }
        if (pooling != Pooling::mean) return;
        for (std::int64_t j = 0; j < y.columns; ++j) value[j] /= static_cast<float>(rows.count);
      });
#endif
}

}  // namespace

void pool_rows(Pooling pooling, core::ConstMatrix x, const core::TokenRows& rows, const std::int32_t* lengths,
               core::Tensor<float> y) {
  core::require(x.rows == rows.count && x.columns == y.columns, "pool_rows: shapes differ");
  core::with_type(x.type, [&]<class T>() {
    switch (pooling) {
      case Pooling::last:
        return pool_in<Pooling::last, T>(x.as<T>(), rows.offsets, lengths, y);
      case Pooling::mean:
        return pool_in<Pooling::mean, T>(x.as<T>(), rows.offsets, lengths, y);
      case Pooling::max:
        return pool_in<Pooling::max, T>(x.as<T>(), rows.offsets, lengths, y);
    }
  });
}

}  // namespace bert_hpc::ops
