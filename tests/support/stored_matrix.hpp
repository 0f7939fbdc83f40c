// Matrices of any storage type for kernel tests: random content that the type represents exactly, and a kernel's result
// as floats.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"
#include "support/sample_tensors.hpp"

namespace test {

using bert_hpc::core::DataType;

/// x rounded to a type.
inline float rounded(DataType type, float x) {
  return bert_hpc::core::with_type(type, [x]<class T>() { return static_cast<float>(T(x)); });
}

/// Owns (rows, columns) elements of a type, with `padding` more per row that kernels must not overwrite.
class StoredMatrix {
 public:
  static constexpr unsigned char mark = 0xA5;

  StoredMatrix(DataType type, std::int64_t rows, std::int64_t columns, std::int64_t padding = 0)
      : bytes_(static_cast<std::size_t>(rows * (columns + padding) * bert_hpc::core::bytes_of(type)), mark),
        matrix_(bytes_.data(), rows, columns, columns + padding, type) {}
  StoredMatrix(const StoredMatrix& other) : bytes_(other.bytes_), matrix_(other.matrix_) {
    matrix_.data = bytes_.data();
  }
  StoredMatrix& operator=(const StoredMatrix&) = delete;

  static StoredMatrix random(DataType type, std::int64_t rows, std::int64_t columns, unsigned seed, float scale = 1.0f,
                             std::int64_t padding = 0) {
    const Matrix source = Matrix::random(rows, columns, seed, scale);
    StoredMatrix result(type, rows, columns, padding);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) result.set(i, j, source(i, j));
    }
    return result;
  }

  float operator()(std::int64_t i, std::int64_t j) const {
    return bert_hpc::core::with_type(matrix_.type,
                                     [&]<class T>() { return static_cast<float>(matrix_.as<T>()(i, j)); });
  }
  void set(std::int64_t i, std::int64_t j, float x) {
    bert_hpc::core::with_type(matrix_.type, [&]<class T>() { matrix_.as<T>()(i, j) = T(x); });
  }
  bool same_bits(const StoredMatrix& other) const { return bytes_ == other.bytes_; }
  bool padding_untouched() const {
    const std::int64_t width = bert_hpc::core::bytes_of(matrix_.type);
    for (std::int64_t i = 0; i < matrix_.rows; ++i) {
      for (std::int64_t b = matrix_.columns * width; b < matrix_.stride * width; ++b) {
        if (bytes_[static_cast<std::size_t>(i * matrix_.stride * width + b)] != mark) return false;
      }
    }
    return true;
  }

  const bert_hpc::core::Matrix& view() const { return matrix_; }
  operator bert_hpc::core::Matrix() const { return matrix_; }
  operator bert_hpc::core::ConstMatrix() const { return matrix_; }

 private:
  Vector<unsigned char> bytes_;
  bert_hpc::core::Matrix matrix_;
};

}  // namespace test
