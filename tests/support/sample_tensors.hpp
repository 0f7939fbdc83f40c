// Shared by kernel tests: matrices with a row stride and reproducible random content, token rows of a batch, and the
// comparison of a float result with a double-precision reference.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/micro_batch.hpp"
#include "support/vector.hpp"

namespace bert_hpc::test {

using bert_hpc::core::Tensor;

inline std::vector<float> normal_numbers(std::int64_t count, unsigned seed, float scale) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> numbers(static_cast<std::size_t>(count));
  for (float& number : numbers) number = normal(draw);
  return numbers;
}

/// Owns (rows, columns) floats with `padding` more per row; the padding holds a mark that kernels must not overwrite.
struct Matrix {
  static constexpr float mark = -777.0f;

  Matrix(std::int64_t row_count, std::int64_t column_count, std::int64_t padding = 0)
      : values(static_cast<std::size_t>(row_count * (column_count + padding)), mark),
        rows(row_count),
        columns(column_count),
        stride(column_count + padding) {}

  static Matrix random(std::int64_t rows, std::int64_t columns, unsigned seed, float scale = 1.0f,
                       std::int64_t padding = 0) {
    Matrix m(rows, columns, padding);
    std::mt19937 engine(seed);
    std::normal_distribution<float> normal(0.0f, scale);
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) m(i, j) = normal(engine);
    }
    return m;
  }

  bool padding_untouched() const {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = columns; j < stride; ++j) {
        if ((*this)(i, j) != mark) return false;
      }
    }
    return true;
  }

  float& operator()(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * stride + j)]; }
  float operator()(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * stride + j)]; }
  /// For code that computes on the host.
  Tensor<float> host() { return {values.host(), rows, columns, stride}; }
  Tensor<const float> host() const { return {values.host(), rows, columns, stride}; }
  /// For kernels.
  Tensor<float> tensor() { return {values.data(), rows, columns, stride}; }
  Tensor<const float> tensor() const { return {values.data(), rows, columns, stride}; }
  operator Tensor<float>() { return tensor(); }
  operator Tensor<const float>() const { return tensor(); }
  operator bert_hpc::core::Matrix() { return tensor(); }
  operator bert_hpc::core::ConstMatrix() const { return tensor(); }

  Vector<float> values;
  std::int64_t rows, columns, stride;
};

/// Token rows of sequences with the given lengths; owns the row arrays.
struct Rows {
  explicit Rows(const std::vector<int>& lengths) {
    offsets.push_back(0);
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      for (int p = 0; p < lengths[b]; ++p) add(static_cast<int>(b), p);
      offsets.push_back(static_cast<std::int32_t>(position.size()));
    }
  }
  /// Selects rows: the given positions of each sequence.
  explicit Rows(const std::vector<std::vector<int>>& positions) {
    offsets.push_back(0);
    for (std::size_t b = 0; b < positions.size(); ++b) {
      for (int p : positions[b]) add(static_cast<int>(b), p);
      offsets.push_back(static_cast<std::int32_t>(position.size()));
    }
  }
  void add(int b, int p) {
    sequence.push_back(b);
    position.push_back(p);
  }
  bert_hpc::core::TokenRows view() const {
    return {static_cast<std::int64_t>(position.size()), offsets.data(), sequence.data(), position.data()};
  }
  /// For code that computes on the host.
  bert_hpc::core::TokenRows host_view() const {
    return {static_cast<std::int64_t>(position.size()), offsets.host(), sequence.host(), position.host()};
  }
  Vector<std::int32_t> offsets, sequence, position;
};

/// A copy of row i of a tensor in device memory, or in the host's while kernels are emulated (HostOperands).
inline std::vector<float> row_of(Tensor<const float> x, std::int64_t i) {
  if (DeviceCalls::of_thread().emulated > 0) return {x.row(i), x.row(i) + x.columns};
  return copy_of(x.row(i), x.columns);
}

/// Largest |result − reference| over all elements.
template <class Reference>
double largest_difference(Tensor<const float> result, const Reference& reference) {
  double largest = 0.0;
  for (std::int64_t i = 0; i < result.rows; ++i) {
    const std::vector<float> row = row_of(result, i);
    for (std::int64_t j = 0; j < result.columns; ++j) {
      const double difference = std::abs(static_cast<double>(row[static_cast<std::size_t>(j)]) - reference(i, j));
      if (!(difference <= largest)) largest = difference;  // true also for NaN
    }
  }
  return largest;
}

/// FNV-1a over the bits of a tensor's elements: equal bits give equal hashes.
inline std::uint64_t bits_of(Tensor<const float> x) {
  std::uint64_t hash = 1469598103934665603ull;
  for (std::int64_t i = 0; i < x.rows; ++i) {
    const std::vector<float> row = row_of(x, i);
    const auto* const bytes = reinterpret_cast<const unsigned char*>(row.data());
    for (std::int64_t b = 0; b < x.columns * 4; ++b) hash = (hash ^ bytes[b]) * 1099511628211ull;
  }
  return hash;
}

}  // namespace bert_hpc::test
