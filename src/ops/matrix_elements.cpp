// Copies, sums and selections of matrices; the formula is above each kernel.
#include "bert_hpc/ops/activation.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

// y = x
template <class From, class To>
void copy_in(Tensor<const From> x, Tensor<To> y) {
  kernel::map(
      "bert_hpc::ops::copy", x, y, KOKKOS_LAMBDA(std::int64_t, float value) { return value; });
}

// y += x
template <class T>
void add_in(Tensor<const T> x, Tensor<T> y) {
  kernel::map(
      "bert_hpc::ops::add", Tensor<const T>(y), x, y, KOKKOS_LAMBDA(float sum, float value) { return sum + value; });
}

// x *= factor
template <class T>
void scale_in(float factor, Tensor<T> x) {
  kernel::map(
      "bert_hpc::ops::scale", Tensor<const T>(x), x,
      KOKKOS_LAMBDA(std::int64_t, float value) { return factor * value; });
}

// y_i = x_rows(i)
template <class T>
void gather_rows_in(Tensor<const T> x, const std::int32_t* rows, Tensor<T> y) {
  kernel::for_elements(
      {"bert_hpc::ops::gather_rows", kernel::bytes_of<T, T>(y.size())}, y.rows, y.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(i, j) = x(rows[i], j); });
}

// y_rows(i) += x_i
template <class T>
void scatter_add_rows_in(Tensor<const T> x, const std::int32_t* rows, Tensor<T> y) {
  kernel::for_elements(
      {"bert_hpc::ops::scatter_add_rows", kernel::bytes_of<T, T, T>(x.size())}, x.rows, x.columns,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t j) { y(rows[i], j) += x(i, j); });
}

}  // namespace

void copy(ConstMatrix x, Matrix y) {
  core::with_type(x.type, [&]<class From>() {
    core::with_type(y.type, [&]<class To>() { copy_in<From, To>(x.as<From>(), y.as<To>()); });
  });
}

void add(ConstMatrix x, Matrix y) {
  core::with_type(x.type, [&]<class T>() { add_in<T>(x.as<T>(), y.as<T>()); });
}

void scale(float factor, Matrix x) {
  if (factor == 1.0f) return;
  core::with_type(x.type, [&]<class T>() { scale_in<T>(factor, x.as<T>()); });
}

void gather_rows(ConstMatrix x, const std::int32_t* rows, Matrix y) {
  core::with_type(x.type, [&]<class T>() { gather_rows_in<T>(x.as<T>(), rows, y.as<T>()); });
}

void scatter_add_rows(ConstMatrix x, const std::int32_t* rows, Matrix y) {
  core::with_type(x.type, [&]<class T>() { scatter_add_rows_in<T>(x.as<T>(), rows, y.as<T>()); });
}

}  // namespace bert_hpc::ops
