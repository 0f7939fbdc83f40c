// Matrices of any storage type for kernel tests: random content that the type represents exactly, and a kernel's result
// as floats.
#pragma once

#include <cstdint>
#include <vector>

#include "bert_hpc/core/matrix.hpp"
#include "support/sample_tensors.hpp"

namespace bert_hpc::test {

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
        shape_(nullptr, rows, columns, columns + padding, type) {}

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
    return bert_hpc::core::with_type(shape_.type,
                                     [&]<class T>() { return static_cast<float>(host().template as<T>()(i, j)); });
  }
  void set(std::int64_t i, std::int64_t j, float x) {
    bert_hpc::core::with_type(shape_.type, [&]<class T>() { host().template as<T>()(i, j) = T(x); });
  }
  bool same_bits(const StoredMatrix& other) const { return bytes_ == other.bytes_; }
  bool padding_untouched() const {
    const std::int64_t width = bert_hpc::core::bytes_of(shape_.type);
    for (std::int64_t i = 0; i < shape_.rows; ++i) {
      for (std::int64_t b = shape_.columns * width; b < shape_.stride * width; ++b) {
        if (bytes_[static_cast<std::size_t>(i * shape_.stride * width + b)] != mark) return false;
      }
    }
    return true;
  }

  std::int64_t rows() const { return shape_.rows; }
  std::int64_t columns() const { return shape_.columns; }
  /// All elements, without padding: for loops over many.
  std::vector<float> floats() const {
    std::vector<float> all;
    all.reserve(static_cast<std::size_t>(rows() * columns()));
    bert_hpc::core::with_type(shape_.type, [&]<class T>() {
      const auto from = host().template as<T>();
      for (std::int64_t i = 0; i < from.rows; ++i) all.insert(all.end(), from.row(i), from.row(i) + from.columns);
    });
    return all;
  }
  /// For code that computes on the host.
  bert_hpc::core::Matrix host() { return at(bytes_.host()); }
  bert_hpc::core::ConstMatrix host() const { return at(const_cast<unsigned char*>(bytes_.host())); }
  /// For kernels.
  bert_hpc::core::Matrix view() { return at(bytes_.data()); }
  bert_hpc::core::ConstMatrix view() const { return at(const_cast<unsigned char*>(bytes_.data())); }
  operator bert_hpc::core::Matrix() { return view(); }
  operator bert_hpc::core::ConstMatrix() const { return view(); }

 private:
  bert_hpc::core::Matrix at(unsigned char* address) const {
    return {address, shape_.rows, shape_.columns, shape_.stride, shape_.type};
  }

  Vector<unsigned char> bytes_;
  bert_hpc::core::Matrix shape_;  // without an address
};

}  // namespace bert_hpc::test
