// Backward kernels that add up over rows what they write, against plain loops in double: on CPU builds a GPU's blocks
// and warps one after the other, on GPU builds the kernels themselves. n additions of floats in any order err by at
// most n·2⁻²⁴ of the sum of magnitudes.
#include "../src/ops/norm_sums.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/layer_norm.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using ops::Write;
using test::DataType;
using test::Matrix;
using test::StoredMatrix;

namespace {

// How many columns of `sums` are not Σ_i term(i, j), the terms each with an error of `relative` of their own.
template <class Term>
std::int64_t wrong_sums(const test::Vector<float>& sums, std::int64_t rows, const Term& term, double relative = 0.0) {
  core::wait_for_kernels();
  std::int64_t wrong = 0;
  for (std::size_t j = 0; j < sums.size(); ++j) {
    double sum = 0.0, magnitude = 0.0;
    for (std::int64_t i = 0; i < rows; ++i) {
      const double value = term(i, static_cast<std::int64_t>(j));
      sum += value;
      magnitude += std::abs(value);
    }
    const double bound = (static_cast<double>(rows) * 0x1p-24 + relative) * magnitude;
    if (!(std::abs(sums[j] - sum) <= bound)) ++wrong;
  }
  return wrong;
}

// Partial sums that nothing has written yet.
Matrix unwritten(std::int64_t blocks, std::int64_t columns) {
  Matrix partial(blocks, columns);
  for (float& x : partial.values) x = NAN;
  return partial;
}

float unit_of(DataType type) {
  return type == DataType::bf16 ? 0x1p-7f : type == DataType::fp16 ? 0x1p-10f : 0.0f;  // a neighbour
}

}  // namespace

TEST_CASE("partial sums: blocks follow from rows alone, and no more rows take fewer") {
  namespace packs = ops::packs;
  std::int64_t norms = 0;
  for (std::int64_t rows = 0; rows < 4000; ++rows) {
    CHECK(packs::norm_sum_blocks(rows) >= norms);
    norms = packs::norm_sum_blocks(rows);
    CHECK((norms > 0) == (rows > 0));
  }
  CHECK(norms == 132);
}

TEST_CASE("GELU backward with sums over rows") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  // No row, a part of a block, several, and more than the most; a part of a pack, of a warp's columns, and two of
  // them.
  const std::int64_t rows = GENERATE(0, 1, 5, 16, 61, 1500), columns = GENERATE(5, 64, 256, 261);
  const StoredMatrix pre = StoredMatrix::random(type, rows, columns, 1, 1.5f, 3),
                     d_y = StoredMatrix::random(type, rows, columns, 2, 1.0f, 1);
  const bool in_place = GENERATE(false, true);
  StoredMatrix separate(type, rows, columns, 2), own(d_y);
  StoredMatrix& d_pre = in_place ? own : separate;
  test::Vector<float> sums(static_cast<std::size_t>(columns), 7.0f), more_sums(11, 7.0f);
  const Matrix more = Matrix::random(20, 11, 3);
  ops::gelu_backward(pre, in_place ? own : d_y, d_pre, sums.data(), Write::replace,
                     {more.tensor(), {more_sums.data()}});
  core::wait_for_kernels();
  CHECK(d_pre.padding_untouched());
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double x = pre(i, j), slope = 0.5 * std::erfc(-x / std::sqrt(2.0)) +
                                          x * std::exp(-0.5 * x * x) / std::sqrt(2.0 * std::acos(-1.0));
      const double expected = d_y(i, j) * slope;
      // The derivative's own error is below 1e-6 (ops/vector_math.hpp), then the type's; tiny results are denormal.
      if (!(std::abs(d_pre(i, j) - expected) <= 1e-6 * std::abs(d_y(i, j)) + unit_of(type) * std::abs(expected) + 1e-7))
        ++wrong;
    }
  }
  CHECK(wrong == 0);
  CHECK(wrong_sums(sums, rows, [&](auto i, auto j) { return d_pre(i, j); }) == 0);
  CHECK(wrong_sums(more_sums, 20, [&](auto i, auto j) { return more(i, j); }) == 0);
  const test::Vector<float> once(sums), more_once(more_sums);
  StoredMatrix again(type, rows, columns, 2);
  ops::gelu_backward(pre, d_y, again, sums.data(), Write::accumulate, {more.tensor(), {more_sums.data()}});
  core::wait_for_kernels();
  for (std::size_t j = 0; j < sums.size(); ++j) CHECK(sums[j] == 2.0f * once[j]);
  for (std::size_t j = 0; j < more_sums.size(); ++j) CHECK(more_sums[j] == 2.0f * more_once[j]);
  StoredMatrix alone(type, rows, columns, 2);
  ops::gelu_backward(pre, d_y, alone, nullptr, Write::replace);  // no sums are wanted
  core::wait_for_kernels();
  CHECK(alone.same_bits(again));
  if (!in_place) CHECK(alone.same_bits(d_pre));
  const StoredMatrix narrow(DataType::bf16, 2, 11);
  CHECK_THROWS_AS(ops::gelu_backward(pre, d_y, alone, sums.data(), Write::replace, {narrow, {more_sums.data()}}),
                  core::Error);
}

TEST_CASE("backward of layer norm and RMS norm with sums over rows") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16);
  const float probability = GENERATE(0.0f, 0.25f);
  // As above; a part of a pack, one pack of some lanes, three packs of each (BERT-base) and four (BERT-large).
  const std::int64_t rows = GENERATE(0, 1, 70, 1700), columns = GENERATE(5, 64, 768, 1024);
  // Groups of warps take rows of whole chunks, a warp takes others.
  const bool in_chunks = GENERATE(false, true);
  if (rows == 1700 && columns > 64 && probability == 0.0f) return;  // time
  if (in_chunks && columns < 768) return;
  const auto padding = [in_chunks](std::int64_t odd) { return in_chunks ? std::int64_t{8} : odd; };
  const bool adds = GENERATE(false, true);  // what a residual stream adds to d_z
  const bool centered = GENERATE(false, true);
  if (!centered && adds) return;  // time
  CAPTURE(core::name_of(type), probability, rows, columns, in_chunks, adds, centered);
  std::vector<int> lengths;
  for (std::int64_t left = rows; left > 0; left -= 30)
    lengths.push_back(static_cast<int>(std::min<std::int64_t>(30, left)));
  const test::Rows tokens(lengths);
  const test::Vector<std::int64_t> samples(lengths.size() + 1, 4);
  core::Dropout site;
  site.probability = probability;
  site.site = 3;
  site.sample = samples.data();
  ops::set_dropout_key(site, 5, 6);
  StoredMatrix z = StoredMatrix::random(type, rows, columns, 1, 1.0f, padding(3));
  const StoredMatrix d_y = StoredMatrix::random(type, rows, columns, 2, 1.0f, padding(1));
  const Matrix gamma = Matrix::random(1, columns, 3), beta = Matrix::random(1, columns, 4);
  StoredMatrix y(type, rows, columns);
  test::Vector<float> means(static_cast<std::size_t>(rows)), rstd(means);
  float* const mean = centered ? means.data() : nullptr;
  ops::residual_layer_norm_forward(core::Dropout{}, tokens.view(), z, nullptr, {}, gamma.values.data(),
                                   beta.values.data(), 1e-12f, y, mean, rstd.data());
  // The kernel without sums, which its own tests compare with double.
  StoredMatrix d_z(type, rows, columns, padding(2)), d_x(type, rows, columns, padding(1)), d_z2(d_z), d_x2(d_x);
  const StoredMatrix added = StoredMatrix::random(type, rows, columns, 5, 1.0f, padding(2));
  const core::ConstMatrix more = adds ? core::ConstMatrix(added) : core::ConstMatrix();
  ops::residual_layer_norm_backward(site, tokens.view(), d_y, z, gamma.values.data(), mean, rstd.data(), d_z, d_x,
                                    more);
  Matrix partial = unwritten(ops::norm_sum_blocks(rows), 3 * columns);
  ops::residual_layer_norm_backward_sums(site, tokens.view(), d_y, z, gamma.values.data(), mean, rstd.data(), d_z2,
                                         d_x2, partial, more);
  core::wait_for_kernels();
  CHECK((d_z2.padding_untouched() && d_x2.padding_untouched()));
  std::int64_t wrong = 0;
  // Two sums of up to 1024 terms in another order; with few columns rstd, which multiplies, can be large. Three 16-bit
  // roundings of half a unit: both results', and that of d_z, from which one of the kernels computes d_x.
  const auto agree = [&](float a, float b, std::int64_t i) {
    const float steep = std::max(1.0f, rstd[static_cast<std::size_t>(i)]);
    return std::abs(a - b) <= (2e-5f + 1.5f * unit_of(type)) * steep * (1.0f + std::abs(a));
  };
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      if (!agree(d_z(i, j), d_z2(i, j), i) || !agree(d_x(i, j), d_x2(i, j), i)) ++wrong;
    }
  }
  CHECK(wrong == 0);

  const auto size = static_cast<std::size_t>(columns);
  test::Vector<float> d_gamma(size, 7.0f), d_beta(size, 7.0f), d_bias(size, 7.0f);
  ops::add_column_sums({}, {partial.tensor(), {d_gamma.data(), d_beta.data(), d_bias.data()}, 3}, Write::replace);
  const auto normal = [&](std::int64_t i, std::int64_t j) {
    const auto at = static_cast<std::size_t>(i);
    return (static_cast<double>(z(i, j)) - means[at]) * rstd[at];
  };
  // Three roundings of a term.
  CHECK(wrong_sums(
            d_gamma, rows, [&](auto i, auto j) { return d_y(i, j) * normal(i, j); }, 3 * 0x1p-24) == 0);
  CHECK(wrong_sums(d_beta, rows, [&](auto i, auto j) { return d_y(i, j); }) == 0);
  CHECK(wrong_sums(d_bias, rows, [&](auto i, auto j) { return d_x2(i, j); }) == 0);
}

TEST_CASE("layer norm backward with sums: the teams of all blocks take each row once") {
  namespace packs = ops::packs;
  const int teams = GENERATE(packs::norm_sum_teams<packs::WarpGroup<3>>, packs::norm_sum_teams<packs::WarpGroup<4>>,
                             packs::norm_sum_teams<packs::Warp<4>>);
  for (const std::int64_t rows : {1, 4, 5, 6, 131, 132 * 6, 132 * 6 + 5, 5000}) {
    const std::int64_t blocks = packs::norm_sum_blocks(rows);
    std::vector<int> taken(static_cast<std::size_t>(rows));
    for (std::int64_t block = 0; block < blocks; ++block) {
      for (int team = 0; team < teams; ++team) {
        const packs::RowWalk walk = packs::norm_sum_rows(block, blocks, team, teams, rows);
        for (std::int64_t row = walk.first; row < walk.end; row += walk.step) ++taken[static_cast<std::size_t>(row)];
      }
    }
    CHECK(std::count(taken.begin(), taken.end(), 1) == rows);
  }
}

TEST_CASE("column sums of several matrices in one launch, of vectors that are wanted") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::int64_t vectors = GENERATE(1, 2, 3), rows = GENERATE(0, 1, 300);
  const std::int64_t n = 21;  // columns of a vector of the partial sums
  const Matrix partial = Matrix::random(rows, vectors * n, 1, 1.0f, 5);
  const StoredMatrix first = StoredMatrix::random(type, rows + 70, 150, 2, 1.0f, 3),
                     second = StoredMatrix::random(type, rows, 64, 3);
  for (std::int64_t unwanted = -1; unwanted < vectors; ++unwanted) {
    test::Vector<float> of_first(150, 1.0f), of_second(64, 1.0f);
    std::vector<test::Vector<float>> sums(static_cast<std::size_t>(vectors), test::Vector<float>(n, 1.0f));
    ops::ColumnSums of_partial{partial.tensor(), {}, static_cast<int>(vectors)};
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (static_cast<std::int64_t>(k) != unwanted) of_partial.sums[k] = sums[k].data();
    }
    const ops::ColumnSums matrices[] = {{first, {of_first.data()}}, {second, {of_second.data()}}};
    ops::add_column_sums(matrices, of_partial, Write::replace);
    CHECK(wrong_sums(of_first, rows + 70, [&](auto i, auto j) { return first(i, j); }) == 0);
    CHECK(wrong_sums(of_second, rows, [&](auto i, auto j) { return second(i, j); }) == 0);
    for (std::size_t k = 0; k < sums.size(); ++k) {
      if (static_cast<std::int64_t>(k) == unwanted) {
        CHECK(sums[k] == test::Vector<float>(n, 1.0f));
        continue;
      }
      const auto begin = static_cast<std::int64_t>(k) * n;
      CHECK(wrong_sums(sums[k], rows, [&](auto i, auto j) { return partial(i, begin + j); }) == 0);
    }
    // Alone they have the same bits.
    test::Vector<float> alone(150, 1.0f);
    ops::column_sums(first, alone.data(), Write::replace);
    core::wait_for_kernels();
    CHECK(alone == of_first);
  }
  const ops::ColumnSums unlike[] = {{first, {nullptr}}, {Matrix(1, 3).tensor(), {nullptr}}};
  if (type != DataType::fp32) CHECK_THROWS_AS(ops::add_column_sums(unlike, {}, Write::replace), core::Error);
  CHECK_THROWS_AS(ops::add_column_sums(std::vector<ops::ColumnSums>(3), {}, Write::replace), core::Error);
}
