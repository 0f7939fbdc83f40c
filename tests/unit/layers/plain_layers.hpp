// Layers in double precision by plain loops, and derivatives of what they compute by central differences.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/epilogue.hpp"
#include "support/sample_tensors.hpp"

namespace bert_hpc::test {

struct Grid {
  Grid(std::int64_t row_count, std::int64_t column_count)
      : rows(row_count), columns(column_count), values(static_cast<std::size_t>(row_count * column_count)) {}
  explicit Grid(const core::Tensor<const float>& from) : Grid(from.rows, from.columns) {
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < columns; ++c) (*this)(r, c) = from(r, c);
    }
  }
  double& operator()(std::int64_t r, std::int64_t c) { return values[static_cast<std::size_t>(r * columns + c)]; }
  double operator()(std::int64_t r, std::int64_t c) const { return values[static_cast<std::size_t>(r * columns + c)]; }

  std::int64_t rows, columns;
  std::vector<double> values;
};

/// Copies of a store's parameters, by name.
using PlainParameters = std::map<std::string, Grid>;

/// Fills the store with random values of standard deviation 0.3, norms' weights around 1, and returns copies.
inline PlainParameters random_parameters(core::ParameterStore& store, unsigned seed) {
  std::mt19937 draw(seed);
  std::normal_distribution<float> normal(0.0f, 0.3f);
  for (float& value : store.change_values()) value = normal(draw);
  PlainParameters plain;
  for (int i = 0; i < static_cast<int>(store.slices().size()); ++i) {
    const core::ParameterSlice& slice = store.slices()[static_cast<std::size_t>(i)];
    if (slice.name == "norm.weight") {
      core::Tensor<float> values = store.change_value(i);
      for (std::int64_t c = 0; c < slice.size; ++c) values.data[c] += 1.0f;
    }
    plain.emplace(slice.name, Grid(store.value(i)));
  }
  return plain;
}

/// x·Wᵀ + b of the parameters NAME.weight and NAME.bias.
inline Grid plain_linear(const Grid& x, const PlainParameters& parameters, const std::string& name) {
  const Grid &weight = parameters.at(name + ".weight"), &bias = parameters.at(name + ".bias");
  Grid y(x.rows, weight.rows);
  for (std::int64_t r = 0; r < y.rows; ++r) {
    for (std::int64_t o = 0; o < y.columns; ++o) {
      double sum = bias(0, o);
      for (std::int64_t i = 0; i < x.columns; ++i) sum += x(r, i) * weight(o, i);
      y(r, o) = sum;
    }
  }
  return y;
}

/// Rows without their mean, divided by their standard deviation, times norm.weight plus norm.bias.
inline Grid plain_norm(Grid x, const PlainParameters& parameters, double epsilon) {
  const Grid &weight = parameters.at("norm.weight"), &bias = parameters.at("norm.bias");
  const auto width = static_cast<double>(x.columns);
  for (std::int64_t r = 0; r < x.rows; ++r) {
    double mean = 0, variance = 0;
    for (std::int64_t c = 0; c < x.columns; ++c) mean += x(r, c) / width;
    for (std::int64_t c = 0; c < x.columns; ++c) variance += (x(r, c) - mean) * (x(r, c) - mean) / width;
    for (std::int64_t c = 0; c < x.columns; ++c) {
      x(r, c) = (x(r, c) - mean) / std::sqrt(variance + epsilon) * weight(0, c) + bias(0, c);
    }
  }
  return x;
}

inline Grid plain_activation(Grid x, layers::Activation activation) {
  for (double& value : x.values) {
    if (activation == layers::Activation::gelu) value *= 0.5 * (1.0 + std::erf(value / std::numbers::sqrt2));
    if (activation == layers::Activation::relu) value = std::max(value, 0.0);
    if (activation == layers::Activation::tanh) value = std::tanh(value);
  }
  return x;
}

/// Σ a ∘ b
inline double plain_dot(const Grid& a, const Grid& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += a.values[i] * b.values[i];
  return sum;
}

inline double largest_of(const Grid& grid) {
  double largest = 0;
  for (const double value : grid.values) largest = std::max(largest, std::abs(value));
  return largest;
}

/// The largest difference of a result from a reference, relative to the largest element of the reference if that is
/// above 1.
inline double relative_difference(const core::Tensor<const float>& result, const Grid& reference) {
  double largest = 0;
  for (std::int64_t r = 0; r < reference.rows; ++r) {
    for (std::int64_t c = 0; c < reference.columns; ++c) {
      largest = std::max(largest, std::abs(result(r, c) - reference(r, c)));
    }
  }
  return largest / std::max(1.0, largest_of(reference));
}

/// The same of a gradient and the derivatives of objective(), a function of `values` that is not linear. A step of 1e-5
/// leaves 1e-10 of truncation and 1e-11 of rounding.
template <class Objective>
double derivative_difference(const core::Tensor<const float>& gradient, Grid& values, const Objective& objective) {
  constexpr double step = 1e-5;
  Grid derivative(values.rows, values.columns);
  for (std::size_t i = 0; i < values.values.size(); ++i) {
    const double before = values.values[i];
    values.values[i] = before + step;
    const double high = objective();
    values.values[i] = before - step;
    const double low = objective();
    values.values[i] = before;
    derivative.values[i] = (high - low) / (2 * step);
  }
  return relative_difference(gradient, derivative);
}

}  // namespace bert_hpc::test
