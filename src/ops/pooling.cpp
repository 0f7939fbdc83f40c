// Pooling of the rows of each sequence and its gradient; a GPU's threads have a pack of columns each.
#include "bert_hpc/ops/pooling.hpp"

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;
using Winners = Tensor<std::int32_t>;

/// Columns that one work item of a CPU sums at a time.
constexpr std::int64_t strip = 256;

/// One function of the rows of a sequence, as a running value.
template <Pooling pooling>
KOKKOS_INLINE_FUNCTION float pooled(float value, float x) {
  if constexpr (pooling == Pooling::mean) return value + x;
  return value >= x ? value : x;
}

/// Rows [first, first + count) of a sequence, without padding.
struct Sequence {
  const std::int32_t *offsets, *lengths;

  KOKKOS_INLINE_FUNCTION std::int64_t first(std::int64_t b) const { return offsets[b]; }
  KOKKOS_INLINE_FUNCTION std::int64_t count(std::int64_t b) const {
    return lengths != nullptr ? lengths[b] : offsets[b + 1] - offsets[b];
  }
  KOKKOS_INLINE_FUNCTION std::int64_t last(std::int64_t b) const { return first(b) + count(b) - 1; }
};

/// value[j] = the pooled value of column begin + j for j < columns ≤ width.
template <Pooling pooling, std::int64_t width, class Load>
KOKKOS_INLINE_FUNCTION void pool_columns(const Sequence& of, std::int64_t b, std::int64_t begin, std::int64_t columns,
                                         std::int64_t half, const Load& load, float (&value)[width],
                                         std::int32_t* winners) {
  float next[width];
  const std::int64_t first = of.first(b), end = first + of.count(b);
  constexpr bool reads_last = pooling == Pooling::last || pooling == Pooling::ends;
  load(reads_last ? end - 1 : first, value);
  if constexpr (pooling == Pooling::ends) {
    load(first, next);
    for (std::int64_t j = 0; j < columns; ++j) value[j] = begin + j < half ? value[j] : next[j];
  }
  if constexpr (pooling == Pooling::max) {
    for (std::int64_t j = 0; winners != nullptr && j < columns; ++j) winners[j] = static_cast<std::int32_t>(first);
  }
  if constexpr (pooling == Pooling::max || pooling == Pooling::mean) {
    for (std::int64_t t = first + 1; t < end; ++t) {
      load(t, next);
      if (pooling == Pooling::max && winners != nullptr) {
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) {
          winners[j] = next[j] > value[j] ? static_cast<std::int32_t>(t) : winners[j];
        }
      }
#pragma omp simd
      for (std::int64_t j = 0; j < columns; ++j) value[j] = pooled<pooling>(value[j], next[j]);
    }
  }
  if constexpr (pooling == Pooling::mean) {
    for (std::int64_t j = 0; j < columns; ++j) value[j] /= static_cast<float>(end - first);
  }
}

template <Pooling pooling, class T, class Y>
void pool_in(Tensor<const T> x, const Sequence& of, Tensor<Y> y, Winners winners) {
  const kernel::Label label("bert_hpc::ops::pool_rows", kernel::bytes_of<T>(x.size()));
  const std::int64_t half = y.columns / 2;
#if BERT_HPC_WARPS
  kernel::for_packs(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t b, std::int64_t begin, int count) {
        const auto load = [&](std::int64_t row, float(&to)[packs::width]) {
          packs::load(x.row(row) + begin, count, to);
        };
        float value[packs::width];
        std::int32_t* const won = winners.data != nullptr ? winners.row(b) + begin : nullptr;
        pool_columns<pooling, packs::width>(of, b, begin, count, half, load, value, won);
        packs::store(value, count, y.row(b) + begin);
      });
#else
  const std::int64_t strips = kernel::divide_up(y.columns, strip);
  kernel::for_items(
      label, y.rows * strips, KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t b = item / strips, begin = item % strips * strip;
        const std::int64_t columns = y.columns - begin < strip ? y.columns - begin : strip;
        const auto load = [&](std::int64_t row, float(&to)[strip]) {
          const T* const from = x.row(row) + begin;
#pragma omp simd
          for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<float>(from[j]);
        };
        float value[strip];
        std::int32_t* const won = winners.data != nullptr ? winners.row(b) + begin : nullptr;
        pool_columns<pooling, strip>(of, b, begin, columns, half, load, value, won);
        Y* const to = y.row(b) + begin;
#pragma omp simd
        for (std::int64_t j = 0; j < columns; ++j) to[j] = static_cast<Y>(value[j]);
      });
#endif
}

/// The gradient of column j of row t of sequence b.
template <Pooling pooling>
KOKKOS_INLINE_FUNCTION float share_of(const Sequence& of, std::int64_t b, std::int64_t t, std::int64_t j,
                                      std::int64_t half, const std::int32_t* winners, float d_y) {
  if constexpr (pooling == Pooling::first) return t == of.first(b) ? d_y : 0.0f;
  if constexpr (pooling == Pooling::last) return t == of.last(b) ? d_y : 0.0f;
  if constexpr (pooling == Pooling::max) return winners[j] == t ? d_y : 0.0f;
  if constexpr (pooling == Pooling::ends) return t == (j < half ? of.last(b) : of.first(b)) ? d_y : 0.0f;
  return t <= of.last(b) ? d_y / static_cast<float>(of.count(b)) : 0.0f;
}

template <Pooling pooling, class T>
void backward_in(Tensor<const std::int32_t> winners, const core::TokenRows& rows, const Sequence& of,
                 Tensor<const T> d_y, Tensor<T> d_x, std::int64_t first_row) {
  const std::int64_t half = d_x.columns / 2;
  const std::int32_t* const sequence = rows.sequence;
  kernel::for_elements(
      {"bert_hpc::ops::pool_rows_backward", kernel::bytes_of<T>(d_x.size())}, d_x.rows, d_x.columns,
      KOKKOS_LAMBDA(std::int64_t t, std::int64_t j) {
        const std::int64_t b = sequence[t];
        const std::int32_t* const won = pooling == Pooling::max ? winners.row(b) : nullptr;
        d_x(t, j) = share_of<pooling>(of, b, first_row + t, j, half, won, static_cast<float>(d_y(b, j)));
      });
}

template <class Call>
void with_pooling(Pooling pooling, const Call& call) {
  switch (pooling) {
    case Pooling::first:
      return call.template operator()<Pooling::first>();
    case Pooling::last:
      return call.template operator()<Pooling::last>();
    case Pooling::mean:
      return call.template operator()<Pooling::mean>();
    case Pooling::max:
      return call.template operator()<Pooling::max>();
    case Pooling::ends:
      return call.template operator()<Pooling::ends>();
  }
}

}  // namespace

void pool_rows(Pooling pooling, core::ConstMatrix x, const core::TokenRows& rows, const std::int32_t* lengths,
               core::Matrix y, core::Tensor<std::int32_t> winners) {
  core::require(x.rows == rows.count && x.columns == y.columns, "pool_rows: shapes differ");
  const Sequence of{rows.offsets, lengths};
  core::with_type(x.type, [&]<class T>() {
    with_pooling(pooling, [&]<Pooling kind>() {
      if (y.type == core::DataType::fp32) return pool_in<kind, T, float>(x.as<T>(), of, y.as<float>(), winners);
      pool_in<kind, T, T>(x.as<T>(), of, y.as<T>(), winners);
    });
  });
}

void pool_rows_backward(Pooling pooling, core::Tensor<const std::int32_t> winners, const core::TokenRows& rows,
                        const std::int32_t* lengths, core::ConstMatrix d_y, core::Matrix d_x, std::int64_t first_row) {
  core::require(d_x.rows == rows.count && d_x.columns == d_y.columns, "pool_rows: shapes differ");
  const Sequence of{rows.offsets, lengths};
  core::with_type(d_x.type, [&]<class T>() {
    with_pooling(pooling,
                 [&]<Pooling kind>() { backward_in<kind, T>(winners, rows, of, d_y.as<T>(), d_x.as<T>(), first_row); });
  });
}

}  // namespace bert_hpc::ops
