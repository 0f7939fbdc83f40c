// Matrix: a Tensor whose element type is known at run time. Activations and their gradients are stored in the type that
// precision.compute names. Layers pass them as matrices; only kernels, compiled for each type, access the elements.
// Tensors of float and of the 16-bit types convert to Matrix implicitly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::core {

/// `Address` is void* (Matrix, for writing) or const void* (ConstMatrix, for reading).
template <class Address>
struct BasicMatrix {
  static constexpr bool writes = std::is_same_v<Address, void*>;
  template <class T>
  using Element = std::conditional_t<writes, T, const T>;
  using Byte = Element<std::byte>;

  Address data = nullptr;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t stride = 0;  ///< elements from one row to the next; at least `columns`
  DataType type = DataType::fp32;

  constexpr BasicMatrix() = default;
  constexpr BasicMatrix(Address pointer, std::int64_t row_count, std::int64_t column_count, std::int64_t row_stride,
                        DataType element)
      : data(pointer), rows(row_count), columns(column_count), stride(row_stride), type(element) {}
  template <class T>
  requires(std::is_convertible_v<T*, Address>) constexpr BasicMatrix(const Tensor<T>& tensor)  // NOLINT: on purpose
      : BasicMatrix(tensor.data, tensor.rows, tensor.columns, tensor.stride, data_type_of<std::remove_const_t<T>>) {}
  template <class Other>
  requires(!writes && std::is_same_v<Other, void*>) constexpr BasicMatrix(const BasicMatrix<Other>& other)  // NOLINT
      : BasicMatrix(other.data, other.rows, other.columns, other.stride, other.type) {}

  constexpr std::int64_t size() const { return rows * columns; }
  constexpr bool contiguous() const { return stride == columns || rows <= 1; }
  Address at(std::int64_t row, std::int64_t column) const {
    return static_cast<Byte*>(data) + (row * stride + column) * bytes_of(type);
  }
  Address row(std::int64_t index) const { return at(index, 0); }

  /// The matrix as a Tensor<T>. Throws Error(internal) if its elements have another type.
  template <class T>
  Tensor<Element<T>> as() const {
    require(type == data_type_of<T>, "a matrix's elements are not of the type that is asked for");
    return {static_cast<Element<T>*>(data), rows, columns, stride};
  }

  /// Rows [begin, begin + count).
  BasicMatrix row_range(std::int64_t begin, std::int64_t count) const {
    return {data == nullptr ? nullptr : at(begin, 0), count, columns, stride, type};
  }
  /// Columns [begin, begin + count).
  BasicMatrix column_range(std::int64_t begin, std::int64_t count) const {
    return {data == nullptr ? nullptr : at(0, begin), rows, count, stride, type};
  }
};

using Matrix = BasicMatrix<void*>;
using ConstMatrix = BasicMatrix<const void*>;

}  // namespace bert_hpc::core
