// The recurrence of an LSTM against plain loops in double precision, and its gradients against central differences of
// them.
#include "bert_hpc/ops/lstm.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>
#include <vector>

#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using test::DataType;
using test::StoredMatrix;

namespace {

using Doubles = std::vector<double>;

const std::vector<std::int32_t> lengths = {2, 5, 1, 5, 3};
constexpr std::int64_t tokens = 16;

double logistic(double x) {
  return 1 / (1 + std::exp(-x));
}

/// Both directions: h (tokens, 2·hidden) from inputs (tokens, 8·hidden), with the bias in them.
struct PlainLstm {
  std::int64_t hidden;
  Doubles recurrent[2];  // (4·hidden, hidden)

  Doubles forward(const Doubles& inputs, Doubles* previous = nullptr) const {
    Doubles output(static_cast<std::size_t>(tokens * 2 * hidden));
    if (previous != nullptr) previous->assign(output.size(), 0);
    for (std::int64_t d = 0; d < 2; ++d) {
      std::int64_t begin = 0;
      for (const std::int32_t length : lengths) {
        sequence(d, begin, length, inputs, output, previous);
        begin += length;
      }
    }
    return output;
  }

  void sequence(std::int64_t d, std::int64_t begin, std::int64_t length, const Doubles& inputs, Doubles& output,
                Doubles* previous) const {
    const auto n = static_cast<std::size_t>(hidden);
    Doubles h(n, 0), c(n, 0), sums(4 * n);
    for (std::int64_t t = 0; t < length; ++t) {
      const auto row = static_cast<std::size_t>(d == 0 ? begin + t : begin + length - 1 - t);
      const auto direction = static_cast<std::size_t>(d);
      const std::size_t at = row * 2 * n + direction * n;
      for (std::size_t k = 0; k < 4 * n; ++k) {
        sums[k] = inputs[row * 8 * n + direction * 4 * n + k];
        for (std::size_t j = 0; j < n; ++j) sums[k] += recurrent[d][k * n + j] * h[j];
      }
      for (std::size_t j = 0; j < n; ++j) {
        if (previous != nullptr) (*previous)[at + j] = h[j];
        c[j] = logistic(sums[n + j]) * c[j] + logistic(sums[j]) * std::tanh(sums[2 * n + j]);
        output[at + j] = logistic(sums[3 * n + j]) * std::tanh(c[j]);
      }
      for (std::size_t j = 0; j < n; ++j) h[j] = output[at + j];
    }
  }
};

/// Everything that the kernels are given, for lengths with `padding` rows behind each sequence.
struct Fixture {
  Fixture(DataType storage, std::int64_t states, std::int32_t padding)
      : type(storage),
        hidden(states),
        batch(ids(padding), ids(padding), padded(padding)),
        products(ops::make_matrix_product("", {.compute = storage})),
        gates(StoredMatrix::random(type, rows(padding), 8 * hidden, 1)),
        previous(type, rows(padding), 2 * hidden),
        output(type, rows(padding), 2 * hidden),
        cells(rows(padding), 2 * hidden),
        bias(test::Matrix::random(1, 8 * hidden, 2, 0.5f)),
        recurrent{StoredMatrix::random(DataType::fp32, 4 * hidden, hidden, 3, scale()),
                  StoredMatrix::random(DataType::fp32, 4 * hidden, hidden, 4, scale())} {
    if (padding > 0) batch.set_lengths(lengths);
    products->reserve({rows(padding), hidden, 4 * hidden});
    scratch.take<unsigned char>(std::ssize(lengths), ops::lstm_scratch_bytes(hidden));
    scratch.take<float>(8, core::floats_of_cache_line);
    scratch.allocate();
    std::int64_t row = 0;
    for (const std::int32_t length : lengths) {
      for (std::int32_t t = 0; t < length; ++t) token_rows.push_back(row++);
      row += padding;
    }
    for (int d = 0; d < 2; ++d) {
      for (const float x : recurrent[d].floats()) plain.recurrent[d].push_back(test::rounded(type, x));
    }
    plain.hidden = hidden;
    for (const std::int64_t t : token_rows) {
      for (std::int64_t k = 0; k < 8 * hidden; ++k) inputs.push_back(double{gates(t, k)} + double{bias(0, k)});
    }
  }

  static std::vector<std::int32_t> padded(std::int32_t padding) {
    std::vector<std::int32_t> all = lengths;
    for (std::int32_t& length : all) length += padding;
    return all;
  }
  static std::int64_t rows(std::int32_t padding) { return tokens + padding * std::ssize(lengths); }
  static std::vector<std::int32_t> ids(std::int32_t padding) {
    return std::vector<std::int32_t>(static_cast<std::size_t>(rows(padding)), 1);
  }
  float scale() const { return 2.0f / std::sqrt(static_cast<float>(hidden)); }

  ops::LstmWeights weights() {
    return {{recurrent[0].view().as<float>(), recurrent[1].view().as<float>()}, bias.tensor().data};
  }
  ops::LengthOrder order() const { return batch.view().by_length; }
  ops::LstmActivations activations() { return {gates, cells.tensor(), previous, output}; }

  /// The largest difference in rows of tokens; infinite if a row of padding is not zero.
  double difference(const StoredMatrix& found, const Doubles& expected) const {
    double most = 0;
    std::size_t next = 0;
    std::size_t token = 0;
    for (std::int64_t row = 0; row < found.rows(); ++row) {
      const bool is_token = token < token_rows.size() && token_rows[token] == row;
      for (std::int64_t j = 0; j < found.columns(); ++j) {
        const double value = found(row, j);
        if (!is_token && value != 0) return INFINITY;
        if (is_token) most = std::max(most, std::abs(value - expected[next++]));
      }
      token += is_token ? 1 : 0;
    }
    return most;
  }

  DataType type;
  std::int64_t hidden;
  test::HostBatch batch;
  std::unique_ptr<ops::MatrixProduct> products;
  StoredMatrix gates, previous, output;
  test::Matrix cells, bias;
  StoredMatrix recurrent[2];
  core::Workspace scratch;
  std::vector<std::int64_t> token_rows;
  PlainLstm plain;
  Doubles inputs;
};

/// Roundings to the storage type of gates and of h, which grow over five steps.
double tolerance(DataType type) {
  return type == DataType::fp32 ? 3e-6 : type == DataType::fp16 ? 6e-3 : 4e-2;
}

}  // namespace

TEST_CASE("LSTM states are those of a plain loop, without padding") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::int64_t hidden = GENERATE(6, 24);
  const std::int32_t padding = GENERATE(0, 2);
  CAPTURE(core::name_of(type), hidden, padding);
  Fixture f(type, hidden, padding);
  CHECK((f.order().tokens < Fixture::rows(padding)) == (padding > 0));
  Doubles previous;
  const Doubles expected = f.plain.forward(f.inputs, &previous);
  ops::lstm_forward(*f.products, f.weights(), f.order(), f.activations(), f.scratch);
  CHECK(f.difference(f.output, expected) < tolerance(type));
  CHECK(f.difference(f.previous, previous) < tolerance(type));
}

TEST_CASE("Gradients of an LSTM's sums are central differences of a plain loop") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const std::int32_t padding = GENERATE(0, 1);
  CAPTURE(core::name_of(type), padding);
  constexpr std::int64_t hidden = 6;
  Fixture f(type, hidden, padding);
  const StoredMatrix d_output = StoredMatrix::random(type, Fixture::rows(padding), 2 * hidden, 7);
  StoredMatrix d_gates(type, Fixture::rows(padding), 8 * hidden);
  ops::lstm_forward(*f.products, f.weights(), f.order(), f.activations(), f.scratch);
  ops::lstm_backward(*f.products, f.weights(), f.order(), f.activations(), d_output, d_gates, f.scratch);
  const auto objective = [&](const Doubles& inputs) {
    const Doubles h = f.plain.forward(inputs);
    double sum = 0;
    std::size_t next = 0;
    for (const std::int64_t row : f.token_rows) {
      for (std::int64_t j = 0; j < 2 * hidden; ++j) sum += h[next++] * d_output(row, j);
    }
    return sum;
  };
  Doubles expected(f.inputs.size());
  for (std::size_t i = 0; i < f.inputs.size(); ++i) {
    constexpr double step = 1e-5;
    Doubles moved = f.inputs;
    moved[i] += step;
    const double above = objective(moved);
    moved[i] -= 2 * step;
    expected[i] = (above - objective(moved)) / (2 * step);
  }
  CHECK(f.difference(d_gates, expected) < tolerance(type));
}
