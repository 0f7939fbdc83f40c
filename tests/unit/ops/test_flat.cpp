#include <bit>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/gradient_squares.hpp"
#include "support/adamw.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;

TEST_CASE("AdamW follows its formulas in double, and zeroes the gradient") {
  const std::int64_t size = GENERATE(0, 1, 5, 4096, 10001);
  Matrix w = Matrix::random(1, size, 1), m(1, size), v(1, size), g(1, size);
  std::fill(m.values.begin(), m.values.end(), 0.0f);
  std::fill(v.values.begin(), v.values.end(), 0.0f);
  test::Vector<double> w2(w.values.begin(), w.values.end()), m2(w2.size(), 0.0), v2(w2.size(), 0.0);
  test::AdamwStep step;
  step.learning_rate = 1e-2;
  step.weight_decay = 0.1;
  step.gradient_scale = 0.25f;
  for (int t = 1; t <= 5; ++t) {
    g.values = Matrix::random(1, size, 10u + static_cast<unsigned>(t), 2.0f).values;
    const test::Vector<float> gradient = g.values;
    step.number = t;
    const double b1 = 0.9, b2 = 0.999;
    test::adamw_update(step, w.values, g.values, m.values, v.values);
    for (std::size_t i = 0; i < w2.size(); ++i) {
      const double grad = 0.25 * gradient[i];
      m2[i] = b1 * m2[i] + (1.0 - b1) * grad;
      v2[i] = b2 * v2[i] + (1.0 - b2) * grad * grad;
      w2[i] -= static_cast<double>(step.learning_rate) * static_cast<double>(step.weight_decay) * w2[i];
      w2[i] -= step.learning_rate / (1.0 - std::pow(b1, t)) * m2[i] /
               (std::sqrt(v2[i]) / std::sqrt(1.0 - std::pow(b2, t)) + 1e-8);
    }
    CHECK(g.values == test::Vector<float>(g.values.size(), 0.0f));
  }
  // Five steps, |w| < 5: two roundings each (5·2·2.4e-7), and an update of at most 0.02 with few relative roundings.
  CHECK(test::largest_difference(w, [&](auto, auto j) { return w2[static_cast<std::size_t>(j)]; }) < 3e-6);
}

TEST_CASE("AdamW gives torch.optim.AdamW's numbers") {
  // torch 2.x in float64: w = [0.5, -1.25, 3], gradients [0.1, -0.2, 0.3] then [-0.4, 0.05, 0], lr 0.01, weight_decay
  // 0.01, other settings torch's defaults; written down after steps 1 and 2.
  test::Vector<float> w{0.5f, -1.25f, 3.0f}, m(3, 0.0f), v(3, 0.0f), g{0.1f, -0.2f, 0.3f};
  const double expected[2][3] = {{0.4899500009999999, -1.2398750005, 2.989700000333333},
                                 {0.49549604074841286, -1.2350563316099947, 2.982700448107882}};
  test::AdamwStep step;
  step.learning_rate = 0.01;
  step.weight_decay = 0.01;
  for (int t = 1; t <= 2; ++t) {
    step.number = t;
    test::adamw_update(step, w, g, m, v);
    for (std::size_t i = 0; i < 3; ++i) {
      // Two roundings a step of values below 4.
      CHECK(std::abs(static_cast<double>(w[i]) - expected[t - 1][i]) < 1e-6);
    }
    g = {-0.4f, 0.05f, 0.0f};
  }
}

TEST_CASE("squared norms are summed per block") {
  const std::int64_t size = GENERATE(0, 1, 4096, 10000);
  const Matrix x = Matrix::random(1, size, 1);
  test::Vector<double> partial(static_cast<std::size_t>((size + 4095) / 4096), -1.0);
  ops::squared_norm_blocks(x.values, partial);
  for (std::size_t b = 0; b < partial.size(); ++b) {
    double total = 0.0;
    for (std::size_t i = b * 4096; i < std::min<std::size_t>((b + 1) * 4096, x.values.size()); ++i) {
      total += static_cast<double>(x.values[i]) * x.values[i];
    }
    // 4,096 additions in double of partial sums below 5,000.
    CHECK(std::abs(partial[b] - total) < 1e-9);
  }
  test::Vector<double> wrong(partial.size() + 1);
  CHECK_THROWS_AS(ops::squared_norm_blocks(x.values, wrong), core::Error);
}

TEST_CASE("a hash depends on every bit and every index") {
  const std::int64_t size = GENERATE(1, 4096, 4097, 10000);
  Matrix x = Matrix::random(1, size, 1);
  const core::MirroredArray<std::uint64_t> partial(4);
  const std::uint64_t hash = ops::hash_of_bits(x.values, partial);
  CHECK(ops::hash_of_bits(x.values, partial) == hash);
  for (const std::int64_t i : {std::int64_t{0}, size / 2, size - 1}) {
    const auto bits = std::bit_cast<std::uint32_t>(x(0, i));
    int unseen = 0;
    for (int bit = 0; bit < 32; ++bit) {
      x(0, i) = std::bit_cast<float>(bits ^ (1u << bit));
      if (ops::hash_of_bits(x.values, partial) == hash) ++unseen;
    }
    CHECK(unseen == 0);
    x(0, i) = std::bit_cast<float>(bits);
  }
  if (size > 1) {
    std::swap(x.values.front(), x.values.back());
    CHECK(ops::hash_of_bits(x.values, partial) != hash);
  }
  const core::MirroredArray<std::uint64_t> too_few((size + 4095) / 4096 - 1);
  CHECK_THROWS_AS(ops::hash_of_bits(x.values, too_few), core::Error);
}

TEST_CASE("the hashes of a matrix' shards add up to that of the matrix") {
  const std::int64_t rows = 120, columns = 37;
  const Matrix x = Matrix::random(rows, columns, 1);
  const core::MirroredArray<std::uint64_t> partial(2);
  const std::uint64_t whole = ops::hash_of_bits(x.values, partial);
  const int dimension = GENERATE(0, 1);
  const std::int64_t extent = dimension == 0 ? rows : columns, cut = extent / 3;
  std::uint64_t sum = 0;
  for (const auto& [begin, count] : {std::pair(std::int64_t{0}, cut), std::pair(cut, extent - cut)}) {
    const std::vector<std::int64_t> shape{dimension == 0 ? count : rows, dimension == 0 ? columns : count};
    Matrix part(shape[0], shape[1]);
    for (std::int64_t i = 0; i < shape[0]; ++i) {
      for (std::int64_t j = 0; j < shape[1]; ++j) {
        part(i, j) = dimension == 0 ? x(begin + i, j) : x(i, begin + j);
      }
    }
    sum += ops::hash_of_bits(part.values, core::runs_of(shape, {dimension, begin, extent}), partial);
  }
  CHECK(sum == whole);
}

TEST_CASE("accumulate and set_zero") {
  const Matrix x = Matrix::random(1, 9001, 1), start = Matrix::random(1, 9001, 2);
  Matrix y(start);
  ops::accumulate(x.values, y.values);
  bool equal = true;
  for (std::int64_t j = 0; j < 9001; ++j) equal = equal && y(0, j) == start(0, j) + x(0, j);
  CHECK(equal);
  ops::set_zero(y.values);
  CHECK(y.values == test::Vector<float>(9001, 0.0f));
}

TEST_CASE("known zeros of a gradient change no bit of update, norm and clearing") {
  // 300 rows of 48 columns, of which the marked ones hold gradients; a table row is three lines.
  const std::int64_t rows = 300, columns = 48, size = rows * columns;
  const test::Vector<std::int32_t> touched{0, 7, 8, 150, 299};
  Matrix w = Matrix::random(1, size, 1), m = Matrix::random(1, size, 2), v(1, size), g(1, size);
  std::fill(v.values.begin(), v.values.end(), 0.5f);
  std::fill(g.values.begin(), g.values.end(), 0.0f);
  for (const std::int32_t row : touched) {
    for (std::int64_t j = 0; j < columns; ++j) {
      g.values[static_cast<std::size_t>(row * columns + j)] = static_cast<float>(row + 1) * 0.01f;
    }
  }
  test::Vector<std::uint8_t> marks(static_cast<std::size_t>(size / ops::TouchedRows::line));
  const ops::TouchedRows view{marks.data()};
  ops::mark_rows(view, columns, touched.data(), static_cast<std::int64_t>(touched.size()));
  CHECK(std::count(marks.begin(), marks.end(), 1) == 15);

  test::Vector<double> all(static_cast<std::size_t>((size + 4095) / 4096)), marked(all.size());
  ops::squared_norm_blocks(g.values, all);
  ops::squared_norm_blocks(g.values, marked, view);
  CHECK(all == marked);
  CHECK(all[2] == 0.0);  // rows 171 to 255

  Matrix w2 = w, m2 = m, v2 = v, g2 = g, g3 = g;
  test::Vector<std::uint8_t> marks3 = marks;
  test::AdamwStep step;
  step.learning_rate = 1e-2;
  step.weight_decay = 0.1;
  test::adamw_update(step, w.values, g.values, m.values, v.values);
  test::adamw_update(step, w2.values, g2.values, m2.values, v2.values, view);
  CHECK((w.values == w2.values && m.values == m2.values && v.values == v2.values && g.values == g2.values));
  CHECK(std::count(marks.begin(), marks.end(), 1) == 0);
  ops::set_zero(g3.values, {marks3.data()});
  CHECK(g3.values == g.values);
  CHECK(std::count(marks3.begin(), marks3.end(), 1) == 0);
  ops::mark_first_rows(view, columns, 2);
  CHECK((std::count(marks.begin(), marks.end(), 1) == 6 && marks[5] == 1));

  // A line that is not marked is not read: what lies there is left alone.
  g.values[100] = 3.0f;
  std::fill(marks.begin(), marks.end(), std::uint8_t{0});
  ops::set_zero(g.values, view);
  CHECK(g.values[100] == 3.0f);
}

TEST_CASE("many ranges in one kernel give the bits of one after the other") {
  // Shorter than a line, than a piece, and several pieces with a part of one; every other one without decay, the third
  // with marks of which some are zero.
  const std::vector<std::int64_t> sizes{5, 4096, 9000, 0, 16};
  std::vector<Matrix> w, g, m, v, w2, g2, m2, v2;
  test::Vector<std::uint8_t> marks(563, 1), marks2;
  for (std::size_t i = 0; i < marks.size(); i += 3) marks[i] = 0;
  marks2 = marks;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    const auto seed = static_cast<unsigned>(10 * r);
    w.push_back(Matrix::random(1, sizes[r], seed + 1));
    g.push_back(Matrix::random(1, sizes[r], seed + 2));
    m.push_back(Matrix::random(1, sizes[r], seed + 3));
    v.push_back(Matrix::random(1, sizes[r], seed + 4));
    for (float& x : v.back().values) x = std::abs(x);
  }
  for (std::int64_t i = 0; i < sizes[2]; ++i) {
    if (marks[static_cast<std::size_t>(i / 16)] == 0) g[2].values[static_cast<std::size_t>(i)] = 0.0f;
  }
  w2 = w, g2 = g, m2 = m, v2 = v;
  const core::DataType type = GENERATE(core::DataType::bf16, core::DataType::fp16);
  std::vector<test::Vector<std::uint16_t>> copies(sizes.size());  // of the second and the third
  for (const std::size_t r : {1u, 2u}) copies[r].assign(static_cast<std::size_t>(sizes[r]), 0xABCD);
  std::vector<ops::UpdateRange> ranges;
  test::AdamwStep step;
  step.learning_rate = 1e-2;
  step.gradient_scale = 0.5f;
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    ranges.push_back({w[r].values.data(),
                      g[r].values.data(),
                      {m[r].values.data(), v[r].values.data()},
                      copies[r].empty() ? nullptr : copies[r].data(),
                      r == 2 ? marks.data() : nullptr,
                      sizes[r],
                      r % 2 == 0});
    step.weight_decay = r % 2 == 0 ? 0.1 : 0.0;
    test::adamw_update(step, w2[r].values, g2[r].values, m2[r].values, v2[r].values,
                       {r == 2 ? marks2.data() : nullptr});
  }
  step.weight_decay = 0.1;
  const ops::UpdateRanges all(ranges, type);
  CHECK(all.size() == sizes.size());
  const std::size_t split = static_cast<std::size_t>(GENERATE(0, 2, 5));
  test::adamw_update(step, all, 0, split);
  test::adamw_update(step, all, split, sizes.size());
  for (std::size_t r = 0; r < sizes.size(); ++r) {
    CHECK((w[r].values == w2[r].values && g[r].values == g2[r].values));
    CHECK((m[r].values == m2[r].values && v[r].values == v2[r].values));
    std::int64_t wrong = 0;
    for (std::size_t i = 0; i < copies[r].size(); ++i) {
      const float value = w[r].values[i];
      wrong += copies[r][i] != (type == core::DataType::bf16 ? core::bf16_of_float(value) : core::fp16_of_float(value));
    }
    CHECK(wrong == 0);
  }
  CHECK(marks == marks2);
  CHECK_THROWS_AS(test::adamw_update(step, all, 0, sizes.size() + 1), core::Error);
}
