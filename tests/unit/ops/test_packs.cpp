// Kernels for GPUs, done by one thread in the order of a warp's: the same bodies, against plain loops in double and
// against the kernels of this build.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "../src/ops/layer_norm_row.hpp"
#include "../src/ops/strips.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using core::Bf16;
using test::Matrix;
using test::Rows;
namespace packs = ops::packs;

namespace {

/// Rows of a type, with one element of padding in each, from a matrix of floats.
template <class T>
struct Typed {
  explicit Typed(const Matrix& from)
      : values(static_cast<std::size_t>(from.rows * (from.columns + 1)), T(0.0f)),
        rows(from.rows),
        columns(from.columns) {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j)
        values[static_cast<std::size_t>(i * (columns + 1) + j)] = T(from(i, j));
    }
  }
  float operator()(std::int64_t i, std::int64_t j) const {
    return values[static_cast<std::size_t>(i * (columns + 1) + j)];
  }
  core::Tensor<T> tensor() { return {values.data(), rows, columns, columns + 1}; }
  test::Vector<T> values;
  std::int64_t rows, columns;
};

struct Case {
  explicit Case(std::int64_t width, float probability)
      : columns(width),
        x(Matrix::random(8, width, 1)),
        residual(Matrix::random(8, width, 2)),
        d_y(Matrix::random(8, width, 3)),
        bias(Matrix::random(1, width, 4)),
        gamma(Matrix::random(1, width, 5)),
        beta(Matrix::random(1, width, 6)) {
    site.probability = probability;
    site.site = 3;
    ops::set_dropout_key(site, 5, 6);
  }
  core::Dropout at_samples() const {
    core::Dropout at = site;
    at.sample = samples.data();
    return at;
  }
  packs::RowSite row_site() const {
    const std::uint32_t threshold = ops::dropout_threshold(site.probability);
    return {at_samples(), rows.view(), threshold, ops::dropout_scale(threshold)};
  }
  std::int64_t columns;
  Rows rows{{3, 4, 1}};
  test::Vector<std::int64_t> samples{4, 9, 2};
  core::Dropout site;
  Matrix x, residual, d_y, bias, gamma, beta;
};

/// Layer norms, or RMS norms, as a team does them; its sums over rows are those of test_partial_sums. `adds`: backward
/// adds a matrix.
template <class T, class Team>
void norms_agree(const Case& c, float tolerance, bool adds, bool centered) {
  // The kernels of this build, which their own tests compare with double.
  Typed<T> z(c.x), residual(c.residual), y(c.x), d_y(c.d_y), d_x(c.x);
  test::Vector<float> means(8), rstd(8);
  float* const mean = centered ? means.data() : nullptr;
  Matrix d_z(8, c.columns, 1);
  ops::residual_layer_norm_forward(c.at_samples(), c.rows.view(), z.tensor(), c.bias.values.data(), residual.tensor(),
                                   c.gamma.values.data(), c.beta.values.data(), 1e-12f, y.tensor(), mean, rstd.data());
  ops::residual_layer_norm_backward(c.at_samples(), c.rows.view(), d_y.tensor(), z.tensor(), c.gamma.values.data(),
                                    mean, rstd.data(), d_z, d_x.tensor(), adds ? residual.tensor() : core::Tensor<T>());
  // The same by packs, on the host.
  const test::HostOperands operands;
  const packs::RowSite site = c.row_site();
  Typed<T> z2(c.x), y2(c.x), d_x2(c.x);
  test::Vector<float> means2(8), rstd2(8);
  float* const mean_of_z = centered ? means.data() : nullptr;  // in host memory now
  float* const mean2 = centered ? means2.data() : nullptr;
  Matrix d_z2(8, c.columns, 1);
  const Team team;
  const packs::NormParameters p{c.bias.values.data(), c.gamma.values.data(), c.beta.values.data(), 1e-12f};
  // Three teams take the rows, the first of which are not the last's.
  for (std::int64_t number = 0; number < 3; ++number) {
    const packs::RowWalk walk{number, 3, 8};
    packs::norm_rows(team, walk,
                     packs::NormForward<T>{site, z2.tensor(), residual.tensor(), y2.tensor(), mean2, rstd2.data()}, p);
    packs::norm_rows_backward(
        team, walk,
        packs::NormBackward<T, float>{site, d_y.tensor(), z.tensor(), mean_of_z, rstd.data(), d_z2.tensor(),
                                      d_x2.tensor(), adds ? residual.tensor() : core::Tensor<T>()},
        c.gamma.values.data(), packs::NoSums{});
  }
  CHECK(d_z2.padding_untouched());
  for (std::int64_t i = 0; i < 8; ++i) {
    const auto at = static_cast<std::size_t>(i);
    REQUIRE(std::abs(means[at] - means2[at]) <= tolerance);
    REQUIRE(std::abs(rstd[at] / rstd2[at] - 1.0f) <= tolerance);
    for (std::int64_t j = 0; j < c.columns; ++j) {
      const auto agree = [&](float a, float b) { return std::abs(a - b) <= tolerance * (1.0f + std::abs(a)); };
      REQUIRE(agree(z(i, j), z2(i, j)));
      REQUIRE(agree(y(i, j), y2(i, j)));
      REQUIRE(agree(d_z(i, j), d_z2(i, j)));
      REQUIRE(agree(d_x(i, j), d_x2(i, j)));
    }
  }
}

template <class T, class Team>
void norms_agree(const Case& c, float tolerance) {
  for (const bool adds : {false, true}) {
    for (const bool centered : {false, true}) norms_agree<T, Team>(c, tolerance, adds, centered);
  }
}

}  // namespace

// Sums in another order: 2048 terms of size one differ by at most 2048 · 2^-24 = 1.2e-4 relative to their magnitudes'
// sum, in practice by its root; 16-bit results may round to the neighbour, 2^-7.
TEST_CASE("packs: layer norm as a warp does it") {
  // Whole packs, a part of one, one pack, less than one, and all that a warp holds.
  const std::int64_t columns = GENERATE(768, 300, 8, 3, 2048);
  const float probability = GENERATE(0.0f, 0.25f);
  const Case c(columns, probability);
  norms_agree<float, packs::WarpInTurn<8>>(c, 2e-5f);
  norms_agree<Bf16, packs::WarpInTurn<8>>(c, 0x1p-7f + 1e-5f);
}

TEST_CASE("packs: layer norm as a group of warps does it") {
  const float probability = GENERATE(0.0f, 0.25f);
  norms_agree<float, packs::WarpGroupInTurn<3>>(Case(768, probability), 2e-5f);
  norms_agree<Bf16, packs::WarpGroupInTurn<3>>(Case(768, probability), 0x1p-7f + 1e-5f);
  norms_agree<core::Fp16, packs::WarpGroupInTurn<4>>(Case(1024, probability), 0x1p-10f + 2e-5f);
}

TEST_CASE("packs: sums over rows as a strip's threads do them") {
  const std::int64_t rows = GENERATE(1, 255, 256, 1100), columns = GENERATE(64, 83, 5);
  const Matrix x = Matrix::random(rows, columns, 1, 1.0f, 3), d_y = Matrix::random(rows, columns, 2);
  const Matrix mean = Matrix::random(1, rows, 3), rstd = Matrix::random(1, rows, 4);
  test::Vector<double> sums(static_cast<std::size_t>(columns)), gamma(sums);
  for (std::int64_t j = 0; j < columns; ++j) {
    for (std::int64_t i = 0; i < rows; ++i) {
      sums[static_cast<std::size_t>(j)] += x(i, j);
      gamma[static_cast<std::size_t>(j)] += static_cast<double>(d_y(i, j)) * (x(i, j) - mean(0, i)) * rstd(0, i);
    }
  }
  const test::HostOperands operands;
  // 1100 terms of about 1 (products of three normals: up to 30), each partial sum rounded: 1100 · 30 · 2^-24.
  const double tolerance = 2e-3;
  std::int64_t finished = 0;
  for (std::int64_t strip = 0; strip < packs::strips_of(columns); ++strip) {
    packs::serial_strip<1>(strip, rows, columns, packs::ColumnTerm<float>{x.tensor()},
                           [&](std::int64_t j, int kind, float total) {
                             REQUIRE(kind == 0);
                             REQUIRE(std::abs(total - sums[static_cast<std::size_t>(j)]) < tolerance);
                             ++finished;
                           });
    const packs::NormWeightTerm<float> term{d_y.tensor(), x.tensor(), mean.values.data(), rstd.values.data()};
    packs::serial_strip<2>(strip, rows, columns, term, [&](std::int64_t j, int kind, float total) {
      if (kind == 0) REQUIRE(std::abs(total - gamma[static_cast<std::size_t>(j)]) < tolerance);
      ++finished;
    });
  }
  CHECK(finished == 3 * columns);
}

TEST_CASE("packs: partial loads and stores touch no memory outside the part") {
  const int count = GENERATE(1, 7, 8), offset = GENERATE(0, 1);
  alignas(16) Bf16 memory[24] = {};
  for (int i = 0; i < 24; ++i) memory[i] = static_cast<float>(i);
  float x[packs::width];
  packs::load(memory + 8 + offset, count, x);
  for (int j = 0; j < packs::width; ++j) {
    CHECK(x[j] == (j < count ? static_cast<float>(8 + offset + j) : 0.0f));
    x[j] = 100.0f + 0.001f;
  }
  packs::store(x, count, memory + 8 + offset);
  for (int i = 0; i < 24; ++i) {
    const bool inside = i >= 8 + offset && i < 8 + offset + count;
    CHECK(static_cast<float>(memory[i]) == (inside ? 100.0f : static_cast<float>(i)));
  }
  CHECK(x[0] == 100.0f);  // as it was stored
}

TEST_CASE("bias and GELU in one pass") {
  const std::int64_t columns = GENERATE(1, 8, 37);
  const Matrix product = Matrix::random(5, columns, 1, 1.0f, 2), bias = Matrix::random(1, columns, 2);
  Matrix pre(product), y(5, columns, 1);
  ops::bias_gelu_forward(pre, bias.values.data(), y);
  CHECK(pre.padding_untouched());
  CHECK(y.padding_untouched());
  for (std::int64_t i = 0; i < 5; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double x = static_cast<double>(product(i, j)) + bias(0, j);
      REQUIRE(std::abs(pre(i, j) - x) < 1e-6);                                             // one rounding of at most 8
      REQUIRE(std::abs(y(i, j) - 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0)))) < 4e-6);  // see ops/vector_math.hpp
    }
  }
}

TEST_CASE("threads that walk over a matrix take each pack once, neighbours at once") {
  for (const std::int64_t rows : {1, 3, 40}) {
    for (const std::int64_t packs_of_row : {1, 5, 96, 700}) {
      for (const std::int64_t threads : {1, 7, 96, 256}) {
        INFO(rows << " rows of " << packs_of_row << " packs, " << threads << " threads");
        std::vector<std::int64_t> round(static_cast<std::size_t>(rows * packs_of_row), -1);
        bool once = true;
        for (std::int64_t thread = 0; thread < threads; ++thread) {
          std::int64_t rounds = 0;
          for (packs::PackWalk at(thread, threads, packs_of_row); at.row < rows; at.advance()) {
            std::int64_t& taken = round[static_cast<std::size_t>(at.row * packs_of_row + at.pack)];
            once = once && taken < 0;
            taken = rounds++;
          }
        }
        CHECK(once);
        bool in_order = true;
        for (std::size_t i = 0; i < round.size(); ++i) {
          in_order = in_order && round[i] == static_cast<std::int64_t>(i) / threads;
        }
        CHECK(in_order);
      }
    }
  }
}
