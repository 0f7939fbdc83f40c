// FP8 products against inner products in double of the numbers that they read: the portable ones through bf16, and
// those of 8-bit numbers with a multiplication of our own instead of the library's.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <functional>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "support/fp8_case.hpp"
#include "support/host_fp8_product.hpp"

using namespace bert_hpc;
using core::Float8;
using ops::Fp8Operand;
using ops::Write;
using test::DataType;
using test::Matrix;
using test::nearest;
using test::note;
using test::StoredMatrix;

namespace {

using Element = std::function<double(std::int64_t)>;

enum class Kind { portable, bytes, fastest };

std::unique_ptr<ops::Fp8Product> make(Kind kind, ops::MatrixProduct& inner, const std::vector<ops::Fp8Layer>& layers) {
  if (kind == Kind::bytes) return std::make_unique<test::HostFp8Product>(inner, layers, true);
  return ops::make_fp8_product(inner, layers, {.portable = kind == Kind::portable});
}

/// The first two are tested everywhere but where the host cannot see what kernels have made.
Kind some_kind() {
  if (core::is_gpu_build()) return GENERATE(Kind::portable, Kind::fastest);
  return GENERATE(Kind::portable, Kind::bytes);
}

/// One layer with weights (out, in) after one step of amax history.
struct Layer {
  Layer(std::int64_t row_count, std::int64_t in, std::int64_t out, Kind kind)
      : rows(row_count),
        x(StoredMatrix::random(DataType::bf16, rows, in, 1, 3.0f, 4)),
        d_y(StoredMatrix::random(DataType::bf16, rows, out, 2, 1e-4f, 2)),
        w(in_bf16(Matrix::random(out, in, 3, 0.05f))),
        bias(in_bf16(Matrix::random(1, out, 4))),
        store({{"weight", {out, in}}, {"bias", {out}, false}}, core::ParameterStore::Arenas::values),
        inner(ops::make_matrix_product("", {.compute = DataType::bf16})),
        product(make(kind, *inner, {{.id = 7, .name = "layer", .weight = weight()}})) {
    put(0, w);
    put(1, bias);
    inner->keep_weights(store);
    inner->reserve({rows, std::max(in, out), std::max(in, out)});
    product->reserve({rows, in, out});
    for (std::int64_t i = 0; i < out * in; ++i) largest = std::max(largest, std::abs(w(i / in, i % in)));
  }
  static Matrix in_bf16(Matrix x) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      for (std::int64_t j = 0; j < x.columns; ++j) x(i, j) = static_cast<float>(core::Bf16(x(i, j)));
    }
    return x;
  }
  void put(int slice, const Matrix& from) {
    const core::ParameterSlice& s = store.slices()[static_cast<std::size_t>(slice)];
    core::copy_on_device(from.tensor().data, store.change_values().data() + s.offset,
                         static_cast<std::size_t>(s.size) * sizeof(float));
  }
  core::Tensor<const float> weight() const { return store.value(0); }
  const float* bias_data() const { return store.value(1).data; }
  void know() {
    note(product->scales(), 0, Fp8Operand::x, 3.0f);  // larger values saturate
    note(product->scales(), 0, Fp8Operand::d_y, 1e-4f);
    product->scales().end_step();
    product->note_weights();
    product->round_weights();
  }
  double read_x(std::int64_t i, std::int64_t k) const { return read(x(i, k), core::float8_scale(3.0f, Float8::e4m3)); }
  double read_d_y(std::int64_t i, std::int64_t k) const {
    const double scale = core::float8_scale(1e-4f, Float8::e5m2);
    return nearest(d_y(i, k) * scale, Float8::e5m2) / scale;
  }
  double read_w(std::int64_t i, std::int64_t k) const {
    return read(w(i, k), core::float8_scale(largest, Float8::e4m3));
  }
  static double read(double value, double scale) { return nearest(value * scale, Float8::e4m3) / scale; }

  std::int64_t rows;
  StoredMatrix x, d_y;
  Matrix w, bias;     // numbers of bf16, so that copies of weights are equal
  float largest = 0;  // of w
  core::ParameterStore store;
  std::unique_ptr<ops::MatrixProduct> inner;
  std::unique_ptr<ops::Fp8Product> product;
};

/// Sums of `length` terms in float: each addition errs by 2⁻²⁴ of the sum so far, which is no more than Σ|a·b|; and the
/// result is rounded to its type, `unit`. Hopper's tensor cores add products of 8-bit numbers with about 13 bits before
/// they go into a float (DeepSeek-AI, "DeepSeek-V3 technical report", 2024, section 3.5.2). `before`: the same of the
/// sum, where it is rounded before `begin` is added.
bool agrees(double result, std::int64_t length, const Element& a, const Element& b, double begin, double unit,
            double before = 0) {
  double value = begin, magnitude = std::abs(begin);
  for (std::int64_t k = 0; k < length; ++k) {
    value += a(k) * b(k);
    magnitude += std::abs(a(k) * b(k));
  }
  const double one = core::is_gpu_build() ? 0x1p-12 : static_cast<double>(length + 1) * 0x1p-24;
  const double sums = one * magnitude;
  const double early = before * (std::abs(value - begin) + sums);
  return std::abs(result - value) <= sums + early + unit * (std::abs(value) + sums + early);
}

double gelu(double x) {
  return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
}

constexpr double bf16_unit = 0x1p-8;

/// 0, step, 2·step, … and the last of `count`.
std::vector<std::int64_t> every(std::int64_t step, std::int64_t count) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < count; i += step) all.push_back(i);
  if (count > 0 && all.back() != count - 1) all.push_back(count - 1);
  return all;
}

/// Compares all three products of a batch in some of its rows.
void check_products(Layer& layer, Kind kind, std::int64_t step) {
  const std::int64_t rows = layer.rows, in = layer.w.columns, out = layer.w.rows;
  layer.know();
  ops::MatrixProduct& product = layer.product->of(7);
  std::int64_t wrong = 0;
  StoredMatrix y(DataType::bf16, rows, out, 8), pre(DataType::bf16, rows, out);
  const auto x_row = [&](std::int64_t i) { return [&, i](std::int64_t k) { return layer.read_x(i, k); }; };
  const auto w_row = [&](std::int64_t j) { return [&, j](std::int64_t k) { return layer.read_w(j, k); }; };
  product.forward(layer.x, layer.weight(), layer.bias_data(), y);
  for (const std::int64_t i : every(step, rows)) {
    // Plain products get their bias when they are rounded already.
    const double before = kind == Kind::portable && !core::is_gpu_build() ? 0 : bf16_unit;
    for (std::int64_t j = 0; j < out; ++j) {
      wrong += !agrees(y(i, j), in, x_row(i), w_row(j), layer.bias(0, j), bf16_unit, before);
    }
  }
  CHECK(wrong == 0);
  CHECK(y.padding_untouched());
  product.forward(layer.x, layer.weight(), {layer.bias_data(), ops::Activation::gelu, pre}, y);
  for (const std::int64_t i : every(step, rows)) {
    for (std::int64_t j = 0; j < out; ++j) {
      // The approximation of erf, and the rounding of the result.
      wrong += std::abs(y(i, j) - gelu(pre(i, j))) > 2 * bf16_unit * std::abs(gelu(pre(i, j))) + 1e-5;
    }
  }
  CHECK(wrong == 0);

  const auto d_row = [&](std::int64_t i) { return [&, i](std::int64_t k) { return layer.read_d_y(i, k); }; };
  const auto w_column = [&](std::int64_t j) { return [&, j](std::int64_t k) { return layer.read_w(k, j); }; };
  StoredMatrix d_x(DataType::bf16, rows, in);
  product.backward_input(layer.d_y, layer.weight(), d_x, Write::replace);
  for (const std::int64_t i : every(step, rows)) {
    for (std::int64_t j = 0; j < in; ++j) wrong += !agrees(d_x(i, j), out, d_row(i), w_column(j), 0, bf16_unit);
  }
  CHECK(wrong == 0);

  Matrix d_w = Matrix::random(out, in, 5, 1e-3f), d_bias = Matrix::random(1, out, 6, 1e-3f);
  const Matrix w_before = d_w, bias_before = d_bias;
  product.backward_weight(layer.d_y, layer.x, d_w.tensor(), d_bias.tensor().data, Write::accumulate);
  for (const std::int64_t o : every(step > 1 ? 7 : 1, out)) {
    const auto d_column = [&](std::int64_t k) { return layer.read_d_y(k, o); };
    for (const std::int64_t j : every(step > 1 ? 5 : 1, in)) {
      const auto x_column = [&](std::int64_t k) { return layer.read_x(k, j); };
      wrong += !agrees(d_w(o, j), rows, d_column, x_column, w_before(o, j), 0x1p-24);
    }
    // Of the gradients as they are.
    wrong += !agrees(
        d_bias(0, o), rows, [&](std::int64_t k) { return layer.d_y(k, o); }, [](std::int64_t) { return 1; },
        bias_before(0, o), 0x1p-24);
  }
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("FP8 products equal products of the rounded numbers") {
  const std::int64_t rows = GENERATE(0, 1, 23, 33), in = GENERATE(16, 80), out = GENERATE(32, 112);
  const Kind kind = some_kind();
  CAPTURE(static_cast<int>(kind), rows, in, out);
  Layer layer(rows, in, out, kind);
  check_products(layer, kind, 1);
}

TEST_CASE("FP8 products of large batches equal products of the rounded numbers") {
  const std::int64_t rows = GENERATE(201, 5065);
  const Kind kind = some_kind();
  CAPTURE(static_cast<int>(kind), rows);
  Layer layer(rows, 48, 64, kind);
  check_products(layer, kind, rows / 40);
}

TEST_CASE("gradients of weights in FP8 are those of their own batch, in whatever order they follow") {
  const Kind kind = some_kind();
  const std::int64_t rows = 40, in = 32, out = 48;
  CAPTURE(static_cast<int>(kind));
  Layer layer(rows, in, out, kind);
  layer.know();
  ops::MatrixProduct& product = layer.product->of(7);
  StoredMatrix d_x(DataType::bf16, rows, in);
  // Two batches whose gradients lie at the same address, one after the other, as those that ranks exchange do.
  const StoredMatrix batches[] = {StoredMatrix::random(DataType::bf16, rows, out, 5, 1e-4f),
                                  StoredMatrix::random(DataType::bf16, rows, out, 6, 1e-4f)};
  StoredMatrix d_y(DataType::bf16, rows, out);
  const auto put = [&](int batch) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < out; ++j) d_y.set(i, j, batches[batch](i, j));
    }
  };
  const auto input = [&](int batch) {
    put(batch);
    product.backward_input(d_y, layer.weight(), d_x, Write::replace);
  };
  const auto weight = [&](int batch) {
    put(batch);
    Matrix d_w(out, in);
    product.backward_weight(d_y, layer.x, d_w.tensor(), nullptr, Write::replace);
    return d_w;
  };
  const Matrix expected[] = {weight(0), weight(1)};
  const auto right = [&](int batch) {
    const Matrix d_w = weight(batch);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < out; ++i) {
      for (std::int64_t j = 0; j < in; ++j) wrong += d_w(i, j) != expected[batch](i, j);
    }
    return wrong == 0;
  };
  CHECK(expected[0](3, 5) != expected[1](3, 5));
  for (int times = 0; times < 2; ++times) {
    input(0);
    CHECK(right(0));
    input(1);
    CHECK(right(1));
  }
  for (const int first : {0, 1}) {
    input(0);
    input(1);
    CHECK(right(first));
    CHECK(right(1 - first));
    input(first);
    CHECK(right(first));
  }
}

TEST_CASE("FP8 products record the largest magnitudes, and compute in bf16 before the first record") {
  const bool knows = GENERATE(false, true);
  const Kind kind = some_kind();
  CAPTURE(knows, static_cast<int>(kind));
  Layer layer(9, 32, 48, kind);
  if (knows) layer.know();
  ops::MatrixProduct& product = layer.product->of(7);
  StoredMatrix y(DataType::bf16, 9, 48), expected(y), d_x(DataType::bf16, 9, 32), expected_d_x(d_x);
  Matrix d_w(48, 32), expected_d_w(48, 32), d_bias(1, 48), expected_d_bias(1, 48);
  product.forward(layer.x, layer.weight(), layer.bias_data(), y);
  product.backward_input(layer.d_y, layer.weight(), d_x, Write::replace);
  product.backward_weight(layer.d_y, layer.x, d_w.tensor(), d_bias.tensor().data, Write::replace);
  layer.inner->forward(layer.x, layer.weight(), layer.bias_data(), expected);
  layer.inner->backward_input(layer.d_y, layer.weight(), expected_d_x, Write::replace);
  layer.inner->backward_weight(layer.d_y, layer.x, expected_d_w.tensor(), expected_d_bias.tensor().data,
                               Write::replace);
  CHECK(y.same_bits(expected) != knows);
  CHECK(d_x.same_bits(expected_d_x) != knows);
  CHECK((d_w(3, 5) == expected_d_w(3, 5)) != knows);
  float x = 0, d_y = 0;
  for (std::int64_t i = 0; i < 9; ++i) {
    for (std::int64_t j = 0; j < 32; ++j) x = std::max(x, std::abs(layer.x(i, j)));
    for (std::int64_t j = 0; j < 48; ++j) d_y = std::max(d_y, std::abs(layer.d_y(i, j)));
  }
  const std::vector<float> seen = test::copy_of(layer.product->scales().step_magnitudes());
  CHECK(seen[0] == x);
  CHECK(seen[1] == d_y);
  CHECK_THROWS_AS(layer.product->of(8), core::Error);
}

TEST_CASE("FP8 products of GELU and its gradient equal those of the stored results") {
  const Kind kind = core::is_gpu_build() ? Kind::fastest : Kind::bytes;
  const std::int64_t rows = GENERATE(1, 33, 300), in = 48, out = 80;
  CAPTURE(rows);
  Layer layer(rows, in, out, kind);
  layer.know();
  ops::Fp8Product& product = layer.product->of(7);
  if (!product.computes_operands()) SKIP("This device's FP8 products read operands from memory.");
  const StoredMatrix pre = StoredMatrix::random(DataType::bf16, rows, out, 5, 3.0f, 2);
  StoredMatrix x(DataType::bf16, rows, in), d_y(DataType::bf16, rows, out), y(DataType::bf16, rows, out), other_y(y),
      d_x(DataType::bf16, rows, in), other_d_x(d_x);
  ops::gelu_forward(layer.x, x);
  ops::gelu_backward(pre, layer.d_y, d_y);
  Matrix d_w(out, in), other_d_w(out, in), partial(ops::ProductOperand::partial_sums(rows), out);
  const auto gelu = ops::ProductOperand::gelu(layer.x);
  const auto gradient = ops::ProductOperand::gelu_gradient(layer.d_y, pre, partial.tensor());

  product.forward(x, layer.weight(), {}, y);
  product.forward(gelu, other_y);
  CHECK(y.same_bits(other_y));
  product.backward_input(d_y, layer.weight(), d_x, Write::replace);
  product.backward_weight(d_y, x, d_w.tensor(), nullptr, Write::replace);
  product.backward_input(gradient, other_d_x, Write::replace);
  CHECK(d_x.same_bits(other_d_x));
  std::int64_t wrong = 0;
  for (std::int64_t j = 0; j < out; ++j) {
    double sum = 0, expected = 0, magnitude = 0;
    for (std::int64_t i = 0; i < partial.rows; ++i) sum += partial(i, j);
    for (std::int64_t i = 0; i < rows; ++i) {
      expected += d_y(i, j);
      magnitude += std::abs(d_y(i, j));
    }
    wrong += std::abs(sum - expected) > 0x1p-24 * 128 * magnitude;  // sums of up to 128 floats
  }
  CHECK(wrong == 0);
  // With the copy that the input's gradient left, with one of its own, and while two of them are outstanding.
  const auto check_weight = [&] {
    product.backward_weight(gradient, gelu, other_d_w.tensor(), Write::replace);
    CHECK(other_d_w.values == d_w.values);
    other_d_w = Matrix(out, in);
  };
  check_weight();
  check_weight();
  product.backward_input(gradient, other_d_x, Write::replace);
  product.backward_input(gradient, other_d_x, Write::replace);
  check_weight();
  check_weight();
  product.backward_input(gradient, other_d_x, Write::replace);
  check_weight();
}
