// Token dropout against plain loops.
#include "bert_hpc/ops/token_dropout.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cmath>
#include <limits>

#include "support/host_batch.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;

TEST_CASE("factors of token dropout are zero for mask tokens, and scale the others by the share of these") {
  // 40 tokens, of which every fifth is a mask; two, one of them a mask; one that is a mask; one that is none.
  std::vector<std::int32_t> ids(44, 3), types(44, 0);
  for (std::size_t t = 0; t < 40; t += 5) ids[t] = 9;
  ids[40] = ids[42] = 9;
  const test::HostBatch batch(ids, types, {40, 2, 1, 1});
  const core::MicroBatch view = batch.view();
  test::Vector<float> factors(44);
  ops::token_factors(view, {.mask_token = 9, .kept = 0.88f}, factors.data());
  const std::vector<float> found = test::copy_of(factors.data(), 44);
  for (std::size_t t = 0; t < 44; ++t) {
    INFO("token " << t);
    const double unmasked = t < 40 ? 0.8 : t < 42 ? 0.5 : 1.0;
    // Three roundings of 2⁻²⁴.
    CHECK(std::abs(found[t] - (ids[t] == 9 ? 0.0 : 0.88 / unmasked)) < 0.88 / unmasked * 0x1p-22);
  }
}

TEST_CASE("factors of token dropout count no padding") {
  const test::HostBatch batch({3, 9, 3, 3, 9, 9}, {0, 0, 0, 0, 0, 0}, {6});
  core::MicroBatch view = batch.view();
  const test::Vector<std::int32_t> real{4};
  view.lengths = real.data();
  test::Vector<float> factors(6);
  ops::token_factors(view, {.mask_token = 9, .kept = 1.0f}, factors.data());
  CHECK(test::copy_of(factors.data(), 4) == std::vector<float>{1 / 0.75f, 0, 1 / 0.75f, 1 / 0.75f});
}

TEST_CASE("rows are scaled in fp32 and rounded once") {
  const DataType type = GENERATE(DataType::fp32, DataType::bf16, DataType::fp16);
  const std::int64_t columns = GENERATE(1, 24, 77);
  test::StoredMatrix x = test::StoredMatrix::random(type, 3, columns, 5, 1.0f, 8);
  x.set(0, 0, std::numeric_limits<float>::infinity());  // its factor is 0
  std::vector<float> before = x.floats();
  before[0] = 0;
  const test::Vector<float> factors{0.0f, 1.1f, 0.3f};
  ops::scale_rows(factors.data(), x);
  const std::vector<float> scale = test::copy_of(factors.data(), 3);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const double exact =
          double{scale[static_cast<std::size_t>(i)]} * before[static_cast<std::size_t>(i * columns + j)];
      // One rounding to the type. Subnormal fp16 values are 2^-24 apart, so theirs is at most 2^-25.
      wrong += std::abs(x(i, j) - exact) <= std::abs(exact) * core::unit_roundoff(type) * 1.01 + 0x1p-25 ? 0 : 1;
    }
  }
  CHECK(wrong == 0);
  CHECK(x.padding_untouched());
}
