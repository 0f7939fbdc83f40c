// Layer normalisation with the preceding bias, dropout and residual. Each row is read from memory once: z, its mean,
// its variance (around the mean: two sums over a cached row, without cancellation) and y are computed while it is in
// cache.
#include "bert_hpc/ops/layer_norm.hpp"

#include <cmath>

#include "dropout_fill.hpp"
#include "kernel.hpp"
#include "kernel_norms.hpp"
#include "kernel_rows.hpp"
#include "kernel_strips.hpp"
#include "layer_norm_row.hpp"
#include "norm_sums.hpp"
#include "residual_row.hpp"
#include "row_sum.hpp"

namespace bert_hpc::ops {
namespace {

/// x is read and replaced by z, y is written.
template <class T>
kernel::Label forward_label(Tensor<T> x, Tensor<const T> residual) {
  return {"bert_hpc::ops::residual_layer_norm_forward",
          kernel::bytes_of<T>(x.size() * (residual.data == nullptr ? 3 : 4))};
}

template <class T, class Z>
kernel::Label backward_label(Tensor<const T> z, Tensor<Z> d_z, Tensor<T> d_x) {
  const bool apart = d_x.data != nullptr && static_cast<const void*>(d_x.data) != d_z.data;
  return {"bert_hpc::ops::residual_layer_norm_backward",
          kernel::bytes_of<T, T, Z>(z.size()) + kernel::bytes_of<T>(apart ? z.size() : 0)};
}

#if BERT_HPC_WARPS
/// One warp per row, with `slots` 8-wide packs of columns per thread. Whether rows are that short.
template <int slots, class T>
bool norm_in_warps(const packs::NormForward<T>& n, const packs::NormParameters& parameters) {
  if (n.x.columns > packs::Warp<slots>::max_columns) return false;
  kernel::for_warps(
      forward_label(n.x, n.residual), n.x.rows, KOKKOS_LAMBDA(int lane, std::int64_t i) {
        packs::norm_rows(packs::Warp<slots>{lane}, {i, 1, i + 1}, n, parameters);
      });
  return true;
}

template <int slots, class T, class Z>
bool norm_in_warps_backward(const packs::NormBackward<T, Z>& n, const float* gamma) {
  if (n.z.columns > packs::Warp<slots>::max_columns) return false;
  kernel::for_warps(
      backward_label(n.z, n.d_z, n.d_x), n.z.rows, KOKKOS_LAMBDA(int lane, std::int64_t i) {
        packs::norm_rows_backward(packs::Warp<slots>{lane}, {i, 1, i + 1}, n, gamma, packs::NoSums{});
      });
  return true;
}
#endif

// z = r + dropout(x + b), μ = Σ z / n (0 in an RMS norm), rstd = 1 / √(Σ (z − μ)² / n + ε), y = γ · (z − μ) · rstd + β
template <class T>
void forward_in(const Dropout& dropout, const TokenRows& rows, Tensor<T> x, const float* bias, Tensor<const T> residual,
                const float* gamma, const float* beta, float epsilon, Tensor<T> y, float* mean, float* rstd) {
  const RowDropout site(dropout, rows);
#if BERT_HPC_WARPS
  const packs::NormForward<T> n{{dropout, rows, site.threshold, site.scale}, x, residual, y, mean, rstd};
  const packs::NormParameters parameters{bias, gamma, beta, epsilon};
  const kernel::Label label = forward_label(x, residual);
  if (kernel::norm_forward_if_whole<3>(label, n, parameters) || kernel::norm_forward_if_whole<4>(label, n, parameters))
    return;
  if (norm_in_warps<4>(n, parameters) || norm_in_warps<8>(n, parameters)) return;
#endif
  kernel::for_items(
      forward_label(x, residual), x.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t columns = x.columns;
        T* z = x.row(i);
        const float inverse = 1.0f / static_cast<float>(columns);
        const T* added = residual.data == nullptr ? nullptr : residual.row(i);
        const float sum = residual_row(site, i, columns, bias, added, z);
        const float center = mean == nullptr ? 0.0f : inverse * sum;
        const float squares =
            kernel::sum_of<float>(columns, [=](std::int64_t j) { return (z[j] - center) * (z[j] - center); });
        const float factor = 1.0f / std::sqrt(squares * inverse + epsilon);
        normalize_row(columns, z, center, factor, gamma, beta, y.row(i));
        if (mean != nullptr) mean[i] = center;
        rstd[i] = factor;
      });
}

// With ẑ = (z − μ) · rstd and g = d_y ∘ γ:  d_z = rstd · (g − Σ g / n − ẑ · Σ (g ∘ ẑ) / n) + more; an RMS norm lacks
// the term with Σ g.
template <class T, class Z>
void backward_in(const Dropout& dropout, const TokenRows& rows, Tensor<const T> d_y, Tensor<const T> z,
                 const float* gamma, const float* mean, const float* rstd, Tensor<Z> d_z, Tensor<T> d_x,
                 Tensor<const T> more) {
  const RowDropout site(dropout, rows);
#if BERT_HPC_WARPS
  const packs::NormBackward<T, Z> n{{dropout, rows, site.threshold, site.scale}, d_y, z, mean, rstd, d_z, d_x, more};
  if (norm_in_warps_backward<4>(n, gamma) || norm_in_warps_backward<8>(n, gamma)) return;
#endif
  const bool dropped = site.threshold > 0 && d_x.data != nullptr;
  const bool copied = site.threshold == 0 && d_x.data != nullptr && static_cast<const void*>(d_x.data) != d_z.data;
  kernel::for_items(
      backward_label(z, d_z, d_x), z.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t columns = z.columns;
        Z* out = d_z.row(i);
        const T* added = more.data == nullptr ? nullptr : more.row(i);
        if (mean == nullptr) {
          normalize_row_backward<false>(columns, d_y.row(i), z.row(i), 0.0f, rstd[i], gamma, added, out);
        } else {
          normalize_row_backward<true>(columns, d_y.row(i), z.row(i), mean[i], rstd[i], gamma, added, out);
        }
        if (dropped) dropout_row(site, i, columns, out, d_x.row(i));
        if (copied) {
          T* copy = d_x.row(i);
          for (std::int64_t j = 0; j < columns; ++j) copy[j] = static_cast<float>(out[j]);
        }
      });
}

/// The backward pass with sums; on CPUs as a GPU does it.
template <class Team, class TeamInTurn, class T>
void sum_in_teams(const kernel::Label& label, const packs::NormBackward<T>& n, const float* gamma,
                  Tensor<float> partial) {
#if BERT_HPC_WARPS
  kernel::norm_backward_sums_of<Team>(label, n, gamma, partial);
#else
  kernel::for_items(label, partial.rows, [=](std::int64_t block) {
    packs::serial_norm_block<TeamInTurn>(block, partial.rows, n, gamma, partial.row(block));
  });
#endif
}

template <int warps, class T>
bool sum_in_groups(const kernel::Label& label, const packs::NormBackward<T>& n, const float* gamma,
                   Tensor<float> partial) {
  if (!packs::are_whole<warps>(n.z.columns, n.d_y, n.z, n.d_z, n.d_x)) return false;
  sum_in_teams<packs::WarpGroup<warps>, packs::WarpGroupInTurn<warps>>(label, n, gamma, partial);
  return true;
}

template <class T>
void backward_sums_in(const Dropout& dropout, const TokenRows& rows, Tensor<const T> d_y, Tensor<const T> z,
                      const float* gamma, const float* mean, const float* rstd, Tensor<T> d_z, Tensor<T> d_x,
                      Tensor<float> partial, Tensor<const T> more) {
  const RowDropout site(dropout, rows);
  const packs::NormBackward<T> n{{dropout, rows, site.threshold, site.scale}, d_y, z, mean, rstd, d_z, d_x, more};
  const kernel::Label label("bert_hpc::ops::residual_layer_norm_backward_sums",
                            kernel::bytes_of<T, T, T, T>(z.size()) + kernel::bytes_of<float>(partial.size()));
  if (sum_in_groups<3>(label, n, gamma, partial) || sum_in_groups<4>(label, n, gamma, partial)) return;
  sum_in_teams<packs::Warp<4>, packs::WarpInTurn<4>>(label, n, gamma, partial);
}

// d_γ_j = or += Σ_i d_y_ij · ẑ_ij,  d_β_j = or += Σ_i d_y_ij
template <class T>
void backward_weight_in(Tensor<const T> d_y, Tensor<const T> z, const float* mean, const float* rstd, float* d_gamma,
                        float* d_beta, Write write) {
  const bool replace = write == Write::replace;
#if BERT_HPC_WARPS
  kernel::for_strips<2>(
      {"bert_hpc::ops::layer_norm_backward_weight", kernel::bytes_of<T, T>(z.size())}, z.rows, z.columns,
      packs::NormWeightTerm<T>{d_y, z, mean, rstd}, KOKKOS_LAMBDA(std::int64_t j, int kind, float total) {
        float* const sums = kind == 0 ? d_gamma : d_beta;
        if (sums != nullptr) sums[j] = replace ? total : sums[j] + total;
      });
#else
  constexpr std::int64_t strip = kernel::strip_columns;
  kernel::for_items(
      {"bert_hpc::ops::layer_norm_backward_weight", kernel::bytes_of<T, T>(z.size())},
      kernel::divide_up(z.columns, strip), KOKKOS_LAMBDA(std::int64_t item) {
        const std::int64_t begin = item * strip;
        const std::int64_t width = z.columns - begin < strip ? z.columns - begin : strip;
        float total_gamma[strip] = {}, total_beta[strip] = {};
        for (std::int64_t block = 0; block < z.rows; block += kernel::sum_block_rows) {
          const std::int64_t end = block + kernel::sum_block_rows < z.rows ? block + kernel::sum_block_rows : z.rows;
          float part_gamma[strip] = {}, part_beta[strip] = {};
          for (std::int64_t i = block; i < end; ++i) {
            const float center = mean == nullptr ? 0.0f : mean[i], factor = rstd[i];
            const T* g = d_y.row(i) + begin;
            const T* zi = z.row(i) + begin;
            if (width == strip) {  // compile-time width
              for (std::int64_t j = 0; j < strip; ++j) {
                part_gamma[j] += g[j] * ((zi[j] - center) * factor);
                part_beta[j] += g[j];
              }
            } else {
              for (std::int64_t j = 0; j < width; ++j) {
                part_gamma[j] += g[j] * ((zi[j] - center) * factor);
                part_beta[j] += g[j];
              }
            }
          }
          for (std::int64_t j = 0; j < strip; ++j) {
            total_gamma[j] += part_gamma[j];
            total_beta[j] += part_beta[j];
          }
        }
        for (std::int64_t j = 0; d_gamma != nullptr && j < width; ++j) {
          d_gamma[begin + j] = replace ? total_gamma[j] : d_gamma[begin + j] + total_gamma[j];
        }
        for (std::int64_t j = 0; d_beta != nullptr && j < width; ++j) {
          d_beta[begin + j] = replace ? total_beta[j] : d_beta[begin + j] + total_beta[j];
        }
      });
#endif
}

}  // namespace

void residual_layer_norm_forward(const Dropout& dropout, const TokenRows& rows, Matrix x, const float* bias,
                                 ConstMatrix residual, const float* gamma, const float* beta, float epsilon, Matrix y,
                                 float* mean, float* rstd) {
  core::with_type(x.type, [&]<class T>() {
    const Tensor<const T> added = residual.data == nullptr ? Tensor<const T>() : residual.as<T>();
    forward_in<T>(dropout, rows, x.as<T>(), bias, added, gamma, beta, epsilon, y.as<T>(), mean, rstd);
  });
}

void residual_layer_norm_backward(const Dropout& dropout, const TokenRows& rows, ConstMatrix d_y, ConstMatrix z,
                                  const float* gamma, const float* mean, const float* rstd, Matrix d_z, Matrix d_x,
                                  ConstMatrix more) {
  core::with_type(z.type, [&]<class T>() {
    const Tensor<T> dropped = d_x.data == nullptr ? Tensor<T>() : d_x.as<T>();
    const Tensor<const T> added = more.data == nullptr ? Tensor<const T>() : more.as<T>();
    if (d_z.type == core::DataType::fp32) {
      backward_in<T>(dropout, rows, d_y.as<T>(), z.as<T>(), gamma, mean, rstd, d_z.as<float>(), dropped, added);
    } else {
      backward_in<T>(dropout, rows, d_y.as<T>(), z.as<T>(), gamma, mean, rstd, d_z.as<T>(), dropped, added);
    }
  });
}

void residual_layer_norm_backward_sums(const Dropout& dropout, const TokenRows& rows, ConstMatrix d_y, ConstMatrix z,
                                       const float* gamma, const float* mean, const float* rstd, Matrix d_z, Matrix d_x,
                                       Tensor<float> partial, ConstMatrix more) {
  core::require(z.columns <= max_summed_columns && d_x.rows == z.rows,
                "residual_layer_norm_backward_sums: rows too long for sums, or without d_x");
  core::require(partial.rows == norm_sum_blocks(z.rows) && partial.columns == 3 * z.columns,
                "residual_layer_norm_backward_sums: partial sums of another size");
  core::with_type(z.type, [&]<class T>() {
    const Tensor<const T> added = more.data == nullptr ? Tensor<const T>() : more.as<T>();
    backward_sums_in<T>(dropout, rows, d_y.as<T>(), z.as<T>(), gamma, mean, rstd, d_z.as<T>(), d_x.as<T>(), partial,
                        added);
  });
}

std::int64_t norm_sum_blocks(std::int64_t rows) {
  return packs::norm_sum_blocks(rows);
}

void layer_norm_backward_weight(ConstMatrix d_y, ConstMatrix z, const float* mean, const float* rstd, float* d_gamma,
                                float* d_beta, Write write) {
  core::with_type(
      z.type, [&]<class T>() { backward_weight_in<T>(d_y.as<T>(), z.as<T>(), mean, rstd, d_gamma, d_beta, write); });
}

}  // namespace bert_hpc::ops
