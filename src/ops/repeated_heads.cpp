// A work item is an element of the narrower matrix.
#include "bert_hpc/ops/repeated_heads.hpp"

#include "bert_hpc/core/error.hpp"
#include "kernel.hpp"

namespace bert_hpc::ops {
namespace {

using core::Tensor;

template <class T>
void repeat_in(Tensor<const T> x, std::int64_t head_dim, std::int64_t times, Tensor<T> y) {
  kernel::for_elements(
      {"bert_hpc::ops::repeat_heads", kernel::bytes_of<T, T>(y.size())}, x.rows, x.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        const std::int64_t head = j / head_dim, column = j - head * head_dim;
        T* const first = y.row(i) + head * times * head_dim + column;
        for (std::int64_t t = 0; t < times; ++t) first[t * head_dim] = x(i, j);
      });
}

template <class T>
void sum_in(Tensor<const T> d_y, std::int64_t head_dim, std::int64_t times, Tensor<T> d_x) {
  kernel::for_elements(
      {"bert_hpc::ops::sum_repeated_heads", kernel::bytes_of<T, T>(d_y.size())}, d_x.rows, d_x.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) {
        const std::int64_t head = j / head_dim, column = j - head * head_dim;
        const T* const first = d_y.row(i) + head * times * head_dim + column;
        float sum = 0;
        for (std::int64_t t = 0; t < times; ++t) sum += static_cast<float>(first[t * head_dim]);
        d_x(i, j) = sum;
      });
}

void check(const core::ConstMatrix& narrow, std::int64_t head_dim, std::int64_t times, const core::ConstMatrix& wide) {
  core::require(narrow.rows == wide.rows && wide.columns == times * narrow.columns && narrow.columns % head_dim == 0,
                "repeated heads: shapes differ");
}

}  // namespace

void repeat_heads(core::ConstMatrix x, std::int64_t head_dim, std::int64_t times, core::Matrix y) {
  check(x, head_dim, times, y);
  core::with_type(x.type, [&]<class T>() { repeat_in(x.as<T>(), head_dim, times, y.as<T>()); });
}

void sum_repeated_heads(core::ConstMatrix d_y, std::int64_t head_dim, std::int64_t times, core::Matrix d_x) {
  check(d_x, head_dim, times, d_y);
  core::with_type(d_y.type, [&]<class T>() { sum_in(d_y.as<T>(), head_dim, times, d_x.as<T>()); });
}

}  // namespace bert_hpc::ops
