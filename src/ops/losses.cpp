// Losses and their gradients, one row at a time (kernel_rows.hpp describes the threads of a row).
#include "bert_hpc/ops/losses.hpp"

#include <cmath>
#include <limits>

#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_blocks.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

/// On a GPU, a block shares rows of at least this many columns; a warp takes shorter rows.
[[maybe_unused]] constexpr std::int64_t columns_of_a_block = 2048;

// loss = log Σ_j exp(x_j − m) + m − x_label with m = max x,  d_x = scale · (exp(x − m) / Σ − one_hot)
void cross_entropy_in_rows(Tensor<const float> logits, const std::int32_t* labels, float scale, float* row_loss,
                           Tensor<float> d_logits) {
  kernel::for_rows(
      {"bert_hpc::ops::cross_entropy", kernel::bytes_of<float>(logits.size() + d_logits.size())}, logits.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const std::int64_t columns = logits.columns;
        const float* x = logits.row(i);
        const float at_label = x[labels[i]];
        team.meet();  // before it may be overwritten
        const float largest = team.max<float>(columns, x[0], [=](std::int64_t j) { return x[j]; });
        float total = 0.0f;
        if (d_logits.data == nullptr) {
          total = team.sum<float>(columns, [=](std::int64_t j) { return fast_exp(x[j] - largest); });
        } else {
          float* d_x = d_logits.row(i);
          total = team.sum<float>(columns, [=](std::int64_t j) { return d_x[j] = fast_exp(x[j] - largest); });
          const float factor = scale / total;
          team.each(columns, [=](std::int64_t j) { d_x[j] *= factor; });
          team.meet();
          if (team.leads()) d_x[labels[i]] -= scale;
        }
        if (team.leads()) row_loss[i] = std::log(total) + (largest - at_label);
      });
}

// As above for 16-bit numbers, which are too coarse to hold exponentials between two passes.
template <class T>
void cross_entropy_in_rows(Tensor<const T> logits, const std::int32_t* labels, float scale, float* row_loss,
                           Tensor<T> d_logits) {
  kernel::for_rows(
      {"bert_hpc::ops::cross_entropy", kernel::bytes_of<T>(logits.size() + d_logits.size())}, logits.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const std::int64_t columns = logits.columns, label = labels[i];
        const T* x = logits.row(i);
        const float at_label = x[label], first = x[0];
        const float largest = team.max<float>(columns, first, [=](std::int64_t j) { return static_cast<float>(x[j]); });
        const float total = team.sum<float>(columns, [=](std::int64_t j) { return fast_exp(x[j] - largest); });
        if (team.leads()) row_loss[i] = std::log(total) + (largest - at_label);
        if (d_logits.data == nullptr) return;
        team.meet();  // before the logits may be overwritten
        T* d_x = d_logits.row(i);
        const float factor = scale / total;
        team.each(columns,
                  [=](std::int64_t j) { d_x[j] = factor * fast_exp(x[j] - largest) - (j == label ? scale : 0.0f); });
      });
}

template <class T>
void cross_entropy_in(Tensor<const T> logits, const std::int32_t* labels, float scale, float* row_loss,
                      Tensor<T> d_logits) {
#if BERT_HPC_WARPS
  if (logits.columns >= columns_of_a_block) {
    return kernel::for_blocks(
        {"bert_hpc::ops::cross_entropy", kernel::bytes_of<T>(logits.size() + d_logits.size())}, logits.rows,
        KOKKOS_LAMBDA(const kernel::BlockTeam& team, std::int64_t i) {
          block_row::cross_entropy(team, logits.row(i), logits.columns, labels[i], scale, row_loss + i,
                                   d_logits.data == nullptr ? nullptr : d_logits.row(i));
        });
  }
#endif
  cross_entropy_in_rows(logits, labels, scale, row_loss, d_logits);
}

// predicted = the first j with x_j = max x
template <class T>
void arg_max_in(Tensor<const T> logits, std::int32_t* predicted) {
  kernel::for_rows(
      "bert_hpc::ops::arg_max", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const T* x = logits.row(i);
        const std::int64_t found =
            team.first_of_largest(logits.columns, [=](std::int64_t j) { return static_cast<float>(x[j]); });
        if (team.leads()) predicted[i] = static_cast<std::int32_t>(found);
      });
}

// probability = 1 / Σ_j exp(x_j − m) with m = max x
template <class T>
void largest_probability_in(Tensor<const T> logits, float* probability) {
  kernel::for_rows(
      "bert_hpc::ops::largest_probability", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const std::int64_t columns = logits.columns;
        const T* x = logits.row(i);
        const float first = x[0];
        const float largest = team.max<float>(columns, first, [=](std::int64_t j) { return static_cast<float>(x[j]); });
        const float total = team.sum<float>(columns, [=](std::int64_t j) { return fast_exp(x[j] - largest); });
        if (team.leads()) probability[i] = 1.0f / total;
      });
}

}  // namespace

void cross_entropy(ConstMatrix logits, const std::int32_t* labels, float scale, float* row_loss, Matrix d_logits) {
  core::with_type(logits.type, [&]<class T>() {
    const Tensor<T> gradient = d_logits.data == nullptr ? Tensor<T>() : d_logits.as<T>();
    cross_entropy_in<T>(logits.as<T>(), labels, scale, row_loss, gradient);
  });
}

void arg_max(ConstMatrix logits, std::int32_t* predicted) {
  core::with_type(logits.type, [&]<class T>() { arg_max_in<T>(logits.as<T>(), predicted); });
}

void largest_probability(ConstMatrix logits, float* probability) {
  core::with_type(logits.type, [&]<class T>() { largest_probability_in<T>(logits.as<T>(), probability); });
}

// m_i = max_j x_ij
void class_shard_maxima(Tensor<const float> logits, float* largest) {
  kernel::for_rows(
      "bert_hpc::ops::class_shard_maxima", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const float* x = logits.row(i);
        const float found = team.max<float>(logits.columns, x[0], [=](std::int64_t j) { return x[j]; });
        if (team.leads()) largest[i] = found;
      });
}

// totals_0i = Σ_j exp(x_ij − m_i),  totals_1i = x_label − m_i or 0
void class_shard_totals(Tensor<const float> logits, std::int64_t first, const std::int32_t* labels,
                        const float* largest, Tensor<float> totals, Tensor<float> d_logits) {
  kernel::for_rows(
      "bert_hpc::ops::class_shard_totals", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const std::int64_t columns = logits.columns, label = labels[i] - first;
        const float* x = logits.row(i);
        const float m = largest[i];
        const float at_label = label >= 0 && label < columns ? x[label] - m : 0.0f;
        team.meet();  // before the label's logit may be overwritten
        float total = 0.0f;
        if (d_logits.data == nullptr) {
          total = team.sum<float>(columns, [=](std::int64_t j) { return fast_exp(x[j] - m); });
        } else {
          float* d_x = d_logits.row(i);
          total = team.sum<float>(columns, [=](std::int64_t j) { return d_x[j] = fast_exp(x[j] - m); });
        }
        if (team.leads()) {
          totals(0, i) = total;
          totals(1, i) = at_label;
        }
      });
}

// loss = log totals_0 − totals_1,  d_x = scale · (d_x / totals_0 − one_hot)
void class_shard_cross_entropy(std::int64_t first, const std::int32_t* labels, float scale, Tensor<const float> totals,
                               float* row_loss, Tensor<float> d_logits) {
  kernel::for_rows(
      "bert_hpc::ops::class_shard_cross_entropy", totals.columns,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        if (team.leads()) row_loss[i] = std::log(totals(0, i)) - totals(1, i);
        if (d_logits.data == nullptr) return;
        float* d_x = d_logits.row(i);
        const std::int64_t columns = d_logits.columns, label = labels[i] - first;
        const float factor = scale / totals(0, i);
        team.each(columns, [=](std::int64_t j) { d_x[j] *= factor; });
        team.meet();
        if (team.leads() && label >= 0 && label < columns) d_x[label] -= scale;
      });
}

// loss = Σ_j (x_j − t_j)² over known targets,  d_x = scale · 2 · (x − t), or 0
void squared_error(Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                   Tensor<float> d_logits) {
  kernel::for_flat(
      "bert_hpc::ops::squared_error", logits.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t columns = logits.columns;
        float loss = 0.0f;
        for (std::int64_t j = 0; j < columns; ++j) {
          const float target = targets[i * columns + j];
          const bool unknown = target != target;
          const float difference = unknown ? 0.0f : logits(i, j) - target;
          loss += difference * difference;
          if (d_logits.data != nullptr) d_logits(i, j) = scale * 2.0f * difference;
        }
        row_loss[i] = loss;
      });
}

// With e = exp(−|x|): σ = 1 / (1 + e) for x ≥ 0, else e / (1 + e), and σ·(1 − σ) = e / (1 + e)² without cancellation.
void sigmoid_squared_error(Tensor<const float> logits, const float* targets, float scale, float* row_loss,
                           Tensor<float> d_logits) {
  kernel::for_flat(
      "bert_hpc::ops::sigmoid_squared_error", logits.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const float x = logits(i, 0), power = fast_exp(-std::abs(x)), sum = 1.0f + power;
        const float difference = (x >= 0.0f ? 1.0f : power) / sum - targets[i];
        row_loss[i] = difference * difference;
        if (d_logits.data != nullptr) d_logits(i, 0) = scale * 2.0f * difference * power / (sum * sum);
      });
}

// index = first + the first j with x_j = m
void class_shard_arg_max(Tensor<const float> logits, std::int64_t first, const float* largest, float* index) {
  kernel::for_rows(
      "bert_hpc::ops::class_shard_arg_max", logits.rows, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        const float* x = logits.row(i);
        const float m = largest[i];
        const std::int64_t columns = logits.columns;
        const std::int64_t from_end = team.max<std::int64_t>(
            columns, 0, [=](std::int64_t j) { return x[j] == m ? columns - j : std::int64_t{0}; });
        if (!team.leads()) return;
        index[i] =
            from_end > 0 ? static_cast<float>(first + columns - from_end) : std::numeric_limits<float>::infinity();
      });
}

// y = x
void to_integers(const float* x, std::int64_t count, std::int32_t* y) {
  kernel::for_flat(
      "bert_hpc::ops::to_integers", count, KOKKOS_LAMBDA(std::int64_t i) { y[i] = static_cast<std::int32_t>(x[i]); });
}

// total = Σ x
void sum(const float* x, std::int64_t count, double* total) {
  // One team, so that the order is fixed: x is short, one number per row of a batch.
  kernel::for_rows(
      "bert_hpc::ops::sum", 1, KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t) {
        const double all = team.sum<double>(count, [=](std::int64_t i) { return static_cast<double>(x[i]); });
        if (team.leads()) *total = all;
      });
}

}  // namespace bert_hpc::ops
