// Squares of many ranges in one kernel, the factor that clipping gives, and updates that read it from device memory.
#include "bert_hpc/ops/gradient_squares.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "../src/ops/optimizers/update_element.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "support/adamw.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

float factor_of(const std::vector<double>& partial, const std::vector<double>& losses, double targets, double max_norm,
                double scale, double& squares) {
  core::MirroredArray<double> parts(static_cast<std::int64_t>(partial.size()));
  core::MirroredArray<double> sums(static_cast<std::int64_t>(losses.size())), total(1);
  core::MirroredArray<float> factor(1);
  core::copy_to_device(partial.data(), parts.device(), partial.size() * sizeof(double));
  core::copy_to_device(losses.data(), sums.device(), losses.size() * sizeof(double));
  ops::sum_and_clip({.partial = parts.device(),
                     .partials = parts.size(),
                     .losses = sums.device(),
                     .micro_batches = sums.size(),
                     .targets = targets},
                    max_norm, scale, total.device(), factor.device());
  squares = total.to_host(1)[0];
  return factor.to_host(1)[0];
}

}  // namespace

TEST_CASE("squares of ranges have the bits of each range's own blocks, at the indices given") {
  const std::int64_t sizes[] = {1, 4096, 10000, 16};
  Matrix x = Matrix::random(1, 20000, 3);
  std::vector<std::uint8_t> marks(10000 / ops::TouchedRows::line);  // of the third: alternating lines
  core::MirroredArray<std::uint8_t> on_device(static_cast<std::int64_t>(marks.size()));
  for (std::size_t l = 0; l < marks.size(); ++l) marks[l] = static_cast<std::uint8_t>(l % 2);
  core::copy_to_device(marks.data(), on_device.device(), marks.size());
  std::vector<ops::SquareRange> ranges;
  std::int64_t begin = 0, block = 2;
  for (const std::int64_t size : sizes) {
    ranges.push_back({x.values.data() + begin, size, block, size == 10000 ? on_device.device() : nullptr});
    begin += (size + 15) / 16 * 16;
    block += (size + ops::norm_block - 1) / ops::norm_block + 1;  // and an element that no range fills
  }
  core::MirroredArray<double> partial(block);
  ops::SquareRanges(ranges).sum({partial.device(), static_cast<std::size_t>(block)});
  std::vector<double> expected(static_cast<std::size_t>(block), 0.0);
  for (const ops::SquareRange& r : ranges) {
    const std::int64_t blocks = (r.size + ops::norm_block - 1) / ops::norm_block;
    core::MirroredArray<double> own(blocks);
    ops::squared_norm_blocks({r.gradient, static_cast<std::size_t>(r.size)},
                             {own.device(), static_cast<std::size_t>(blocks)}, {r.marks});
    const std::span<const double> host = own.to_host(blocks);
    std::copy(host.begin(), host.end(), expected.begin() + r.first_block);
  }
  const std::span<const double> sums = partial.to_host(block);
  CHECK(std::vector<double>(sums.begin(), sums.end()) == expected);
  CHECK(expected[0] == 0);
  CHECK(expected[2] > 0);
}

TEST_CASE("squares and updates of gradients in bf16 use the rounded numbers") {
  const std::int64_t size = GENERATE(3, 4096, 10001);
  const Matrix exact = Matrix::random(1, size, 2, 2.0f);
  Matrix w = Matrix::random(1, size, 1), m = Matrix::random(1, size, 3), v = Matrix::random(1, size, 4);
  for (float& x : v.values) x = std::abs(x);
  const test::Vector<float> w2 = w.values, m2 = m.values, v2 = v.values;
  test::Vector<core::Bf16> g(static_cast<std::size_t>(size));
  double squares = 0, exact_squares = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    g[i] = core::Bf16(exact.values[i]);
    squares += static_cast<double>(g[i]) * static_cast<double>(g[i]);
    exact_squares += static_cast<double>(exact.values[i]) * static_cast<double>(exact.values[i]);
  }
  const test::Vector<core::Bf16> before = g;
  const ops::SquareRange square{.size = size, .narrow_gradient = g.data()};
  core::MirroredArray<double> partial((size + ops::norm_block - 1) / ops::norm_block);
  ops::SquareRanges({&square, 1}).sum({partial.device(), static_cast<std::size_t>(partial.size())});
  double sum = 0;
  for (const double part : partial.to_host(partial.size())) sum += part;
  CHECK(std::abs(sum - squares) <= 1e-12 * squares);  // doubles in another order
  // An element is off by at most 2^-8 of itself, and so is the norm.
  CHECK(std::abs(std::sqrt(sum) - std::sqrt(exact_squares)) <= std::ldexp(std::sqrt(exact_squares), -8));
  CHECK(sum != exact_squares);

  const bool decay = GENERATE(true, false), copied = GENERATE(true, false), skips = GENERATE(true, false);
  test::Vector<std::uint16_t> copies(g.size());
  const float factor = skips ? std::nanf("") : 0.25f;
  core::MirroredArray<float> on_device(1);
  core::copy_to_device(&factor, on_device.device(), sizeof factor);
  const ops::UpdateRange range{.value = w.values.data(),
                               .states = {m.values.data(), v.values.data()},
                               .copy = copied ? copies.data() : nullptr,
                               .size = size,
                               .decay = decay,
                               .clears = false,
                               .narrow_gradient = g.data()};
  const test::AdamwStep step{.learning_rate = 1e-2, .weight_decay = 0.1, .device_scale = on_device.device()};
  test::adamw_update(step, ops::UpdateRanges({&range, 1}), 0, 1);
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < g.size(); ++i) {
    wrong += g[i].bits != before[i].bits;
    if (skips) {
      wrong += w.values[i] != w2[i] || m.values[i] != m2[i] || v.values[i] != v2[i];
      continue;
    }
    const double grad = 0.25 * static_cast<double>(before[i]);
    const double first = 0.9 * m2[i] + 0.1 * grad, second = 0.999 * v2[i] + 0.001 * grad * grad;
    const double value = w2[i] * (1 - 1e-2 * (decay ? 0.1 : 0.0)) - 1e-2 * first / (std::sqrt(second) + 1e-8);
    // Values below 5, and a few roundings of 6e-8 of each and of the update, which small second moments make large.
    wrong += std::abs(m.values[i] - first) > 1e-6 || std::abs(v.values[i] - second) > 1e-6;
    wrong += std::abs(w.values[i] - value) > 1e-6 + 1e-6 * std::abs(w2[i] - value);
    if (copied) wrong += copies[i] != core::bf16_of_float(w.values[i]);
  }
  CHECK(wrong == 0);
  ops::UpdateRange cleared = range;
  cleared.clears = true;
  CHECK_THROWS_AS(ops::UpdateRanges({&cleared, 1}), core::Error);
}

TEST_CASE("the factor of an update clips as torch does, undoes the scale, and is NaN where something is not finite") {
  double squares = 0;
  CHECK(factor_of({9, 16}, {1, 2}, 3, 1.0, 1, squares) == static_cast<float>(1.0 / (5.0 + 1e-6)));
  CHECK(squares == 25);
  CHECK(factor_of({9, 16}, {1, 2}, 3, 10.0, 1, squares) == 1.0f);
  CHECK(factor_of({9, 16}, {1, 2}, 3, 0.0, 1, squares) == 1.0f);  // no clipping
  CHECK(factor_of({9 * 64.0, 16 * 64.0}, {1}, 3, 1.0, 8, squares) == static_cast<float>(1.0 / (5.0 + 1e-6) / 8));
  CHECK(std::isnan(factor_of({9, infinity}, {1}, 1, 1.0, 1, squares)));
  CHECK(std::isnan(factor_of({std::nan("")}, {1}, 1, 0.0, 1, squares)));
  CHECK(std::isnan(factor_of({9}, {1, infinity}, 1, 1.0, 1, squares)));
  CHECK(std::isnan(factor_of({9}, {-infinity, infinity}, 1, 1.0, 1, squares)));
  CHECK(std::isnan(factor_of({9}, {0}, 0, 1.0, 1, squares)));  // the mean over no target
}

TEST_CASE("an update that reads its factor from device memory has the bits of one that is handed it") {
  const std::int64_t size = 10000;
  const float factor = GENERATE(1.0f, 0.3f);
  Matrix w[2] = {Matrix::random(1, size, 1), Matrix::random(1, size, 1)};
  Matrix g[2] = {Matrix::random(1, size, 2), Matrix::random(1, size, 2)};
  Matrix m[2] = {Matrix::random(1, size, 3), Matrix::random(1, size, 3)};
  Matrix v[2] = {Matrix::random(1, size, 4), Matrix::random(1, size, 4)};
  core::MirroredArray<float> on_device(1);
  core::copy_to_device(&factor, on_device.device(), sizeof factor);
  test::AdamwStep step{.learning_rate = 1e-2, .weight_decay = 0.1};
  for (int i : {0, 1}) {
    for (float& x : v[i].values) x = std::abs(x);
    const ops::UpdateRange range{.value = w[i].values.data(),
                                 .gradient = g[i].values.data(),
                                 .states = {m[i].values.data(), v[i].values.data()},
                                 .size = size};
    step.gradient_scale = i == 0 ? factor : 77.0f;
    step.device_scale = i == 0 ? nullptr : on_device.device();
    test::adamw_update(step, ops::UpdateRanges({&range, 1}), 0, 1);
  }
  CHECK(w[0].values == w[1].values);
  CHECK(m[0].values == m[1].values);
  CHECK(v[0].values == v[1].values);
  CHECK(g[1].values == test::Vector<float>(g[1].values.size(), 0.0f));
}

TEST_CASE("a NaN factor zeroes gradients and their marks, and changes no other value") {
  const std::int64_t size = 5000;
  Matrix w = Matrix::random(1, size, 1), g = Matrix::random(1, size, 2), m = Matrix::random(1, size, 3);
  Matrix v = Matrix::random(1, size, 4);
  const auto before = w.values, first = m.values, second = v.values;
  test::Vector<std::uint8_t> marks((size + 15) / 16, 1);
  test::Vector<std::uint16_t> copies(size, 7);
  const float none = std::nanf("");
  core::MirroredArray<float> factor(1);
  core::copy_to_device(&none, factor.device(), sizeof none);
  const ops::UpdateRange range{.value = w.values.data(),
                               .gradient = g.values.data(),
                               .states = {m.values.data(), v.values.data()},
                               .copy = copies.data(),
                               .marks = marks.data(),
                               .size = size};
  test::adamw_update({.learning_rate = 1e-2, .device_scale = factor.device()}, ops::UpdateRanges({&range, 1}), 0, 1);
  CHECK(w.values == before);
  CHECK(m.values == first);
  CHECK(v.values == second);
  CHECK(copies == test::Vector<std::uint16_t>(size, 7));
  CHECK(g.values == test::Vector<float>(g.values.size(), 0.0f));
  CHECK(marks == test::Vector<std::uint8_t>(marks.size(), 0));
}

namespace {

struct Element {
  static constexpr std::size_t states = 2;
  void operator()(float& w, float g, float& m, float& v) const {
    m = 0.5f * m + g;
    v += m * m;
    w -= 0.25f * m / v;
  }
};

}  // namespace

TEST_CASE("updates in packs by a warp's threads equal a loop's updates one by one") {
  const test::HostOperands operands;
  const std::int64_t size = GENERATE(1, 8, 500, 512);
  Matrix w = Matrix::random(1, size, 1), g = Matrix::random(1, size, 2), m = Matrix::random(1, size, 3);
  Matrix v = Matrix::random(1, size, 4);
  for (float& x : v.values) x = std::abs(x) + 0.1f;
  std::vector<std::uint8_t> marks(static_cast<std::size_t>((size + 15) / 16));
  for (std::size_t l = 0; l < marks.size(); ++l) marks[l] = static_cast<std::uint8_t>(l % 3 != 0);
  Matrix w2 = w, g2 = g, m2 = m, v2 = v;
  const Matrix g0 = g;
  std::vector<core::Bf16> copies(static_cast<std::size_t>(size), core::Bf16(0.0f));
  const ops::UpdateElement<Element, core::Bf16> body{
      {}, w.values.data(), g.values.data(), {m.values.data(), v.values.data()}, copies.data()};
  for (int lane = 0; lane < 32; ++lane) ops::update_packs(lane, size, marks.data(), body);
  for (std::size_t i = 0; i < static_cast<std::size_t>(size); ++i) {
    const bool zero = marks[i / 16] == 0;
    Element()(w2.values[i], zero ? 0.0f : g0.values[i], m2.values[i], v2.values[i]);
    // The compiler may join products and sums in one of the two.
    CHECK(std::abs(m.values[i] - m2.values[i]) < 1e-6f);
    CHECK(std::abs(v.values[i] - v2.values[i]) < 1e-6f * (1 + v2.values[i]));
    CHECK(std::abs(w.values[i] - w2.values[i]) < 1e-5f);
    CHECK(static_cast<float>(copies[i]) == static_cast<float>(core::Bf16(w.values[i])));
    CHECK(g.values[i] == (zero ? g0.values[i] : 0.0f));
  }
}
