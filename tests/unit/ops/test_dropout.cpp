#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "../src/ops/dropout_pack.hpp"
#include "support/sample_tensors.hpp"

using namespace bert_hpc;
using test::Matrix;
using test::Rows;

namespace {

struct Site {
  explicit Site(float probability, test::Vector<std::int64_t> samples_) : samples(std::move(samples_)) {
    dropout.probability = probability;
    dropout.site = 37;
    dropout.sample = samples.data();
    ops::set_dropout_key(dropout, 1234, 56);
  }
  test::Vector<std::int64_t> samples;
  core::Dropout dropout;
};

}  // namespace

TEST_CASE("Philox4x32-10 gives the published answers") {
  // Known-answer vectors of Random123 (Salmon et al.): zeros; ones; digits of pi.
  const auto equals = [](const core::Philox4& x, std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
    return x.word[0] == a && x.word[1] == b && x.word[2] == c && x.word[3] == d;
  };
  CHECK(equals(core::philox(0, 0, 0, 0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  CHECK(equals(core::philox(~0u, ~0u, ~0u, ~0u, ~0u, ~0u), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  CHECK(equals(core::philox(0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0), 0xd16cfe09,
               0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST_CASE("dropout decides every element by dropout_bits, scales by the exact probability and repeats itself") {
  const std::int64_t columns = GENERATE(1, 7, 8, 64, 100, 256, 300, 1030);
  const float probability = GENERATE(0.1f, 0.5f);
  const Rows rows({3, 1, 5});
  const Site site(probability, {7, 0, (std::int64_t{5} << 32) + 9});
  const Matrix x = Matrix::random(9, columns, 1, 1.0f, 4);
  Matrix y(9, columns, 1);
  ops::dropout(site.dropout, rows.view(), x, y);
  const std::uint32_t threshold = ops::dropout_threshold(probability);
  const float scale = ops::dropout_scale(threshold);
  bool equal = true;
  for (std::int64_t i = 0; i < 9; ++i) {
    const auto row = static_cast<std::size_t>(i);
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto bits =
          ops::dropout_bits(site.dropout, site.samples[static_cast<std::size_t>(rows.sequence[row])],
                            static_cast<std::uint32_t>(rows.position[row]), static_cast<std::uint32_t>(j / 8));
      const bool keeps = ops::dropout_keeps(bits, static_cast<int>(j % 8), threshold);
      equal = equal && y(i, j) == (keeps ? x(i, j) * scale : 0.0f);
    }
  }
  CHECK(equal);
  CHECK(y.padding_untouched());
  Matrix in_place(x);
  ops::dropout(site.dropout, rows.view(), in_place, in_place);
  CHECK(test::bits_of(in_place) == test::bits_of(y));
  // Some columns of the rows are decided as they are among all.
  for (const std::int64_t first : {std::int64_t{8}, std::int64_t{5}, columns / 2}) {
    if (first >= columns) continue;
    core::Dropout of_part = site.dropout;
    of_part.first_column = first;
    Matrix part(9, columns - first, 2);
    ops::dropout(of_part, rows.view(), core::Tensor<const float>(x).column_range(first, columns - first), part);
    bool alike = true;
    for (std::int64_t i = 0; i < 9; ++i) {
      for (std::int64_t j = first; j < columns; ++j) alike = alike && part(i, j - first) == y(i, j);
    }
    CHECK(alike);
    CHECK(part.padding_untouched());
  }
}

TEST_CASE("dropout by packs, as a GPU's threads compute it, has the kernels' bits") {
  const std::int64_t columns = GENERATE(1, 7, 8, 64, 100), first = GENERATE(0, 16, 5, 15);
  const Rows rows({3, 1, 5});
  Site site(0.3f, {7, 0, (std::int64_t{5} << 32) + 9});
  site.dropout.first_column = first;
  const Matrix x = Matrix::random(9, columns, 1, 1.0f, 4);
  Matrix y(9, columns, 1), expected(9, columns);
  ops::dropout(site.dropout, rows.view(), x, expected);
  core::wait_for_kernels();
  const std::uint32_t threshold = ops::dropout_threshold(0.3f);
  const auto by_packs = [&](const auto& body) {
    const std::int64_t covered = columns + body.skipped();
    for (std::int64_t i = 0; i < 9; ++i) {
      for (std::int64_t pack = 0; pack < ops::packs::count_of(covered); ++pack) {
        body(i, pack * ops::packs::width, ops::packs::columns_of(pack, covered));
      }
    }
  };
  const float scale = ops::dropout_scale(threshold);
  const test::HostOperands operands;
  site.dropout.sample = site.samples.data();
  by_packs(ops::packs::DropoutPack<false, float>{site.dropout, rows.view(), threshold, scale, x.tensor(), y.tensor()});
  CHECK(test::bits_of(y) == test::bits_of(expected));
  CHECK(y.padding_untouched());
  if (first % 8 != 0) return;
  Matrix aligned(9, columns, 1);
  by_packs(
      ops::packs::DropoutPack<true, float>{site.dropout, rows.view(), threshold, scale, x.tensor(), aligned.tensor()});
  CHECK(test::bits_of(aligned) == test::bits_of(expected));
  CHECK(aligned.padding_untouched());
}

TEST_CASE("dropout drops its share and differs between samples, steps and sites") {
  const std::int64_t columns = 1024;
  std::vector<int> lengths(16, 16);
  test::Vector<std::int64_t> samples(16);
  for (std::size_t b = 0; b < 16; ++b) samples[b] = static_cast<std::int64_t>(b * 1000);
  const Rows rows(lengths);
  Site site(0.1f, samples);
  Matrix ones(256, columns), y(256, columns), other(256, columns);
  for (float& value : ones.values) value = 1.0f;
  ops::dropout(site.dropout, rows.view(), ones, y);
  double kept = 0.0, sum = 0.0;
  for (float value : y.values) {
    kept += value != 0.0f;
    sum += value;
  }
  const double n = static_cast<double>(y.values.size());
  // Five standard deviations of a binomial share: 5·sqrt(0.09 / 262144) = 2.9e-3.
  CHECK(std::abs(kept / n - 0.9) < 3e-3);
  CHECK(std::abs(sum / n - 1.0) < 3.3e-3);
  const auto agreement = [&] {
    double equal = 0.0;
    for (std::size_t e = 0; e < y.values.size(); ++e) equal += (y.values[e] != 0.0f) == (other.values[e] != 0.0f);
    return equal / n;
  };
  // Independent masks agree in 0.81 + 0.01 of all elements.
  ops::set_dropout_key(site.dropout, 1234, 57);
  ops::dropout(site.dropout, rows.view(), ones, other);
  CHECK(std::abs(agreement() - 0.82) < 5e-3);
  ops::set_dropout_key(site.dropout, 1234, 56);
  site.dropout.site = 38;
  ops::dropout(site.dropout, rows.view(), ones, other);
  CHECK(std::abs(agreement() - 0.82) < 5e-3);
  site.dropout.site = 37;
  for (auto& sample : site.samples) sample += std::int64_t{1} << 40;
  ops::dropout(site.dropout, rows.view(), ones, other);
  CHECK(std::abs(agreement() - 0.82) < 5e-3);
}

TEST_CASE("dropout with probability 0 copies") {
  const Rows rows(std::vector<int>{2});
  const Matrix x = Matrix::random(2, 11, 3, 1.0f, 2);
  Matrix y(2, 11);
  ops::dropout(core::Dropout{}, rows.view(), x, y);
  CHECK(test::bits_of(y) == test::bits_of(x));
}
