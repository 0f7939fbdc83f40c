// Tensor: a non-owning, row-major view of a matrix (a vector is a matrix of one row). core::Buffer, core::Workspace and
// core::ParameterStore own the memory. Every parameter and member of this type states its shape in a comment.
#pragma once

#include <cstdint>
#include <type_traits>

namespace bert_hpc::core {

template <class T>
struct Tensor {
  T* data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next; at least `columns`

  constexpr Tensor() = default;
  constexpr Tensor(T* pointer, std::int64_t row_count, std::int64_t column_count)
      : data(pointer), rows(row_count), columns(column_count), stride(column_count) {}
  constexpr Tensor(T* pointer, std::int64_t row_count, std::int64_t column_count, std::int64_t row_stride)
      : data(pointer), rows(row_count), columns(column_count), stride(row_stride) {}

  /// A writable view converts to a read-only view.
  template <class U>
  requires(std::is_const_v<T>&& std::is_same_v<std::remove_const_t<T>, U>) constexpr Tensor(
      const Tensor<U>& other)  // NOLINT: conversion on purpose
      : data(other.data), rows(other.rows), columns(other.columns), stride(other.stride) {}

  constexpr std::int64_t size() const { return rows * columns; }
  constexpr bool contiguous() const { return stride == columns || rows <= 1; }
  constexpr T* row(std::int64_t index) const { return data + index * stride; }
  constexpr T& operator()(std::int64_t row_index, std::int64_t column) const {
    return data[row_index * stride + column];
  }

  /// Rows [begin, begin + count).
  constexpr Tensor row_range(std::int64_t begin, std::int64_t count) const {
    return Tensor(data + begin * stride, count, columns, stride);
  }
  /// Columns [begin, begin + count).
  constexpr Tensor column_range(std::int64_t begin, std::int64_t count) const {
    return Tensor(data + begin, rows, count, stride);
  }
};

}  // namespace bert_hpc::core
