// Norms of rows, factors of columns and their gradients; the formula is above each kernel.
#include "bert_hpc/ops/row_norms.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"
#include "kernel_strips.hpp"

namespace bert_hpc::ops {
namespace {

/// Σ_i (w_oi + Σ_k scale·b_ko·a_ki)² over the columns [begin, begin + count) of row o, at most strip_columns.
KOKKOS_INLINE_FUNCTION double strip_squares(const LowRankSum& sum, std::int64_t o, std::int64_t begin, int count) {
  float value[kernel::strip_columns];
  const float* const w = sum.w.row(o) + begin;
  for (int j = 0; j < count; ++j) value[j] = w[j];
  for (std::int64_t k = 0; k < sum.a.rows; ++k) {
    const float factor = sum.scale * sum.b(k, o);
    const float* const a = sum.a.row(k) + begin;
    for (int j = 0; j < count; ++j) value[j] += factor * a[j];
  }
  double squares = 0.0;
  for (int j = 0; j < count; ++j) squares += static_cast<double>(value[j]) * static_cast<double>(value[j]);
  return squares;
}

struct RowNorm {
  const float* magnitudes;
  float *norms, *factors;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t o, double squares) const {
    const auto norm = static_cast<float>(std::sqrt(squares));
    norms[o] = norm;
    if (factors != nullptr) factors[o] = norm > 0.0f ? magnitudes[o] / norm : 0.0f;
  }
};

struct RowSquares {
  float* squares;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t o, double sum) const { squares[o] = static_cast<float>(sum); }
};

// store(o, Σ_i (w_oi + scale·Σ_k b_ko·a_ki)²)
template <class Store>
void sum_row_squares(const LowRankSum& sum, const Store& store) {
  const std::int64_t columns = sum.w.columns;
  kernel::for_rows(
      {"bert_hpc::ops::row_norms", kernel::bytes_of<float>(sum.w.size())}, sum.w.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t o) {
        constexpr std::int64_t strip = kernel::strip_columns;
        const auto squares = team.sum<double>(kernel::divide_up(columns, strip), [&](std::int64_t s) {
          const std::int64_t begin = s * strip, left = columns - begin;
          // Two calls: a compile-time width keeps the strip in registers.
          if (left >= strip) return strip_squares(sum, o, begin, static_cast<int>(strip));
          return strip_squares(sum, o, begin, static_cast<int>(left));
        });
        if (team.leads()) store(o, squares);
      });
}

struct Scaled {
  const float *factors, *bias;
  float shift;

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t j, float x) const {
    return (factors[j] + shift) * x + (bias != nullptr ? bias[j] : 0.0f);
  }
};

// y_ij = or += (factor_j + shift) · x_ij + bias_j
template <class T>
void scale_columns_in(const ColumnScale& scale, Tensor<const T> x, Tensor<T> y, Write write) {
  const Scaled value{scale.factors, scale.bias, scale.shift};
  const bool adds = write == Write::accumulate;
  const kernel::Label label("bert_hpc::ops::scale_columns", kernel::bytes_of<T, T>(y.size()));
#if BERT_HPC_WARPS
  kernel::for_packs(
      label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count) {
        float of_x[packs::width], of_y[packs::width] = {};
        packs::load(x.row(i) + begin, count, of_x);
        if (adds) packs::load(y.row(i) + begin, count, of_y);
        for (int j = 0; j < packs::width; ++j) {
          if (j < count) of_y[j] += value(begin + j, of_x[j]);
        }
        packs::store(of_y, count, y.row(i) + begin);
      });
#else
  if (adds) {
    kernel::for_elements(
        label, y.rows, y.columns, KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
          y(i, j) = static_cast<float>(y(i, j)) + value(j, static_cast<float>(x(i, j)));
        });
  } else {
    kernel::for_elements(
        label, y.rows, y.columns,
        KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = value(j, static_cast<float>(x(i, j))); });
  }
#endif
}

/// Contribution of a row's 8-wide pack to the sums of products.
template <class T>
struct ProductTerm {
  Tensor<const T> x, y;

  BERT_HPC_DEVICE void operator()(std::int64_t row, std::int64_t column, int count, float* sums) const {
    float of_x[packs::width], of_y[packs::width];
    packs::load(x.row(row) + column, count, of_x);
    packs::load(y.row(row) + column, count, of_y);
    for (int j = 0; j < packs::width; ++j) sums[j] += of_x[j] * of_y[j];
  }
};

struct Quotient {
  const float* divisors;
  float* sums;

  KOKKOS_INLINE_FUNCTION void add(std::int64_t j, float total) const {
    if (divisors[j] != 0.0f) sums[j] += total / divisors[j];
  }
};

// sums_j += Σ_i x_ij · y_ij / divisor_j
template <class T>
void add_column_products_in(Tensor<const T> x, Tensor<const T> y, const float* divisors, float* sums) {
  const kernel::Label label("bert_hpc::ops::add_column_products", kernel::bytes_of<T, T>(x.size()));
  const Quotient result{divisors, sums};
#if BERT_HPC_WARPS
  kernel::for_strips<1>(
      label, x.rows, x.columns, ProductTerm<T>{x, y},
      KOKKOS_LAMBDA(std::int64_t j, int, float total) { result.add(j, total); });
#else
  constexpr std::int64_t strip = kernel::strip_columns;
  kernel::for_items(
      label, kernel::divide_up(x.columns, strip), KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t begin = item * strip;
        const std::int64_t width = x.columns - begin < strip ? x.columns - begin : strip;
        float total[strip] = {};
        for (std::int64_t block = 0; block < x.rows; block += kernel::sum_block_rows) {
          const std::int64_t end = block + kernel::sum_block_rows < x.rows ? block + kernel::sum_block_rows : x.rows;
          float partial[strip] = {};
          const auto add_row = [&](std::int64_t i, std::int64_t columns) {
            const T *of_x = x.row(i) + begin, *of_y = y.row(i) + begin;
            for (std::int64_t j = 0; j < columns; ++j) {
              partial[j] += static_cast<float>(of_x[j]) * static_cast<float>(of_y[j]);
            }
          };
          // A compile-time width keeps the partial sums in registers.
          for (std::int64_t i = block; i < end; ++i) width == strip ? add_row(i, strip) : add_row(i, width);
          for (std::int64_t j = 0; j < strip; ++j) total[j] += partial[j];
        }
        for (std::int64_t j = 0; j < width; ++j) result.add(begin + j, total[j]);
      });
#endif
}

}  // namespace

// norm_o = √squares_o,  factor_o = magnitude_o / norm_o
void row_norms(const LowRankSum& sum, const float* magnitudes, float* norms, float* factors) {
  sum_row_squares(sum, RowNorm{magnitudes, norms, factors});
}

void row_squares(const LowRankSum& sum, float* squares) {
  sum_row_squares(sum, RowSquares{squares});
}

void finish_row_norms(std::int64_t rows, const float* magnitudes, float* norms, float* factors) {
  const RowNorm finish{magnitudes, norms, factors};
  kernel::for_flat(
      {"bert_hpc::ops::finish_row_norms", kernel::bytes_of<float, float>(rows)}, rows,
      KOKKOS_LAMBDA(std::int64_t o) { finish(o, static_cast<double>(finish.norms[o])); });
}

void scale_columns(const ColumnScale& scale, ConstMatrix x, Matrix y, Write write) {
  core::require(x.rows == y.rows && x.columns == y.columns, "scale_columns: matrices of different shapes");
  core::with_type(x.type, [&]<class T>() { scale_columns_in<T>(scale, x.as<T>(), y.as<T>(), write); });
}

void add_column_products(ConstMatrix x, ConstMatrix y, const float* divisors, float* sums) {
  core::require(x.rows == y.rows && x.columns == y.columns, "add_column_products: matrices of different shapes");
  core::with_type(x.type, [&]<class T>() { add_column_products_in<T>(x.as<T>(), y.as<T>(), divisors, sums); });
}

}  // namespace bert_hpc::ops
