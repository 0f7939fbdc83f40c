// Products that read rounded copies of weights give the bits of products that round weights each time. Each change of
// the parameters renews the copies, and nothing else does.
#include "bert_hpc/ops/rounded_weights.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/matrix_product.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "support/stored_matrix.hpp"

using namespace bert_hpc;
using core::DataType;
using core::ParameterStore;
using ops::RoundedWeights;
using test::StoredMatrix;

namespace {

// A table that is only looked up, then weights, two of them joined; their copies are no multiple of 4096.
std::vector<core::ParameterSpec> specs() {
  std::vector<core::ParameterSpec> list = {{"words", {11, 37}},
                                           {"query", {70, 90}},
                                           {"key", {70, 90}, true, true},
                                           {"bias", {50}, false},
                                           {"last", {90, 70}}};
  list[0].lookup_only = true;
  return list;
}

void fill(ParameterStore& store, unsigned seed) {
  ops::fill_normal(store.change_values(), 0.3f, seed);
}

// How many elements of the copy are not the rounded weight.
std::int64_t stale(RoundedWeights& copies, const ParameterStore& store, int slice) {
  const core::Tensor<const float> w = store.value(slice);
  const core::ConstMatrix copy = copies.of(w);
  REQUIRE(copy.type == copies.type());
  const std::vector<float> values = test::copy_of(w.data, w.size());
  const auto bits = test::copy_of(static_cast<const std::uint16_t*>(copy.data), w.size());
  std::int64_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint16_t right =
        copy.type == DataType::bf16 ? core::bf16_of_float(values[i]) : core::fp16_of_float(values[i]);
    wrong += bits[i] != right;
  }
  return wrong;
}

}  // namespace

TEST_CASE("copies of weights follow every change of the parameters") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16);
  ParameterStore store(specs(), ParameterStore::Arenas::values);
  fill(store, 1);
  RoundedWeights copies(store, type);
  CHECK(copies.begin() == store.slices()[1].offset);
  CHECK(copies.bytes() == 2 * (store.arena_size() - copies.begin()));
  for (int slice = 1; slice < 5; ++slice) CHECK(stale(copies, store, slice) == 0);
  fill(store, 2);
  for (int slice = 1; slice < 5; ++slice) CHECK(stale(copies, store, slice) == 0);
  ops::fill({store.change_value(4).data, 90 * 70}, 0.1f);
  CHECK(stale(copies, store, 4) == 0);

  // Lookup tables and parameters outside the store have no copy.
  CHECK(copies.of(store.value(0)).data == store.value(0).data);
  const test::Matrix other = test::Matrix::random(3, 4, 1);
  CHECK(copies.of(other).data == other.tensor().data);
  CHECK(copies.of(other).type == DataType::fp32);
}

TEST_CASE("copies that an update has written are taken as they are, and not made again without a change") {
  ParameterStore store(specs(), ParameterStore::Arenas::values);
  RoundedWeights copies(store, DataType::bf16);
  fill(store, 1);
  core::fill_on_device(copies.data(), 0x11, static_cast<std::size_t>(copies.bytes()));  // a write by other code
  copies.written();
  const auto first = [&] {
    return test::copy_of(static_cast<const std::uint16_t*>(copies.of(store.value(1)).data), 1);
  };
  CHECK(first()[0] == 0x1111);
  CHECK(first()[0] == 0x1111);
  fill(store, 1);
  CHECK(first()[0] != 0x1111);
}

TEST_CASE("copies of a layout without values take no memory, and report the memory they would take") {
  const ParameterStore layout(specs(), ParameterStore::Arenas::none), store(specs(), ParameterStore::Arenas::values);
  RoundedWeights copies(layout, DataType::fp16);
  CHECK(copies.data() == nullptr);
  CHECK(copies.bytes() == RoundedWeights(store, DataType::fp16).bytes());
  CHECK_THROWS_AS(RoundedWeights(store, DataType::fp32), core::Error);
}

TEST_CASE("products with and without copies of weights give the same bits") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16);
  const std::int64_t rows = 33, in = 90, out = 140;
  ParameterStore store(specs(), ParameterStore::Arenas::values);
  const auto keeps = ops::make_matrix_product(test::independent_products(), {.compute = type}),
             rounds = ops::make_matrix_product(test::independent_products(), {.compute = type});
  const auto single = ops::make_matrix_product("");
  CHECK(single->keep_weights(store) == 0);
  CHECK(single->kept_weights() == nullptr);
  CHECK(keeps->keep_weights(store) == RoundedWeights(store, type).bytes());
  keeps->reserve({rows, in, out});
  rounds->reserve({rows, in, out});
  const StoredMatrix x = StoredMatrix::random(type, rows, in, 1), d_y = StoredMatrix::random(type, rows, out, 2);
  const test::Matrix bias = test::Matrix::random(1, out, 3);
  for (unsigned update = 0; update < 3; ++update) {
    fill(store, 5 + update);
    const core::Tensor<const float> w(store.value(1).data, out, in);  // with the one that is joined
    StoredMatrix y(type, rows, out), y2(type, rows, out), pre(type, rows, out), pre2(type, rows, out),
        d_x(type, rows, in), d_x2(type, rows, in);
    keeps->forward(x, w, bias.values.data(), y);
    rounds->forward(x, w, bias.values.data(), y2);
    CHECK(y.same_bits(y2));
    keeps->forward(x, w, {bias.values.data(), ops::Activation::gelu, pre}, y);
    rounds->forward(x, w, {bias.values.data(), ops::Activation::gelu, pre2}, y2);
    CHECK((y.same_bits(y2) && pre.same_bits(pre2)));
    keeps->backward_input(d_y, w, d_x, ops::Write::replace);
    rounds->backward_input(d_y, w, d_x2, ops::Write::replace);
    CHECK(d_x.same_bits(d_x2));
    keeps->backward_input(d_y, w, d_x, {ops::Activation::gelu, x});
    rounds->backward_input(d_y, w, d_x2, {ops::Activation::gelu, x});
    CHECK(d_x.same_bits(d_x2));
  }
}

TEST_CASE("a bias that has a copy is added with its own rounding at most") {
  const DataType type = GENERATE(DataType::bf16, DataType::fp16);
  const bool reproducible = GENERATE(false, true);
  const std::int64_t rows = 33, in = 90, out = 70;
  ParameterStore store(specs(), ParameterStore::Arenas::values);
  fill(store, 1);
  const auto product = ops::make_matrix_product("", {.compute = type, .reproducible = reproducible});
  product->keep_weights(store);
  product->reserve({rows, in, out});
  const StoredMatrix x = StoredMatrix::random(type, rows, in, 1);
  const core::Tensor<const float> w = store.value(1);
  const float* const bias = store.value(4).data;
  StoredMatrix y(type, rows, out), pre(type, rows, out), activated(type, rows, out);
  product->forward(x, w, bias, y);
  product->forward(x, w, {bias, ops::Activation::gelu, pre}, activated);
  core::wait_for_kernels();
  const std::vector<float> weights = test::copy_of(w.data, w.size()), biases = test::copy_of(bias, out);
  const double unit = core::unit_roundoff(type);
  std::int64_t wrong = 0;
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < out; ++j) {
      double sum = 0, magnitude = 0;
      for (std::int64_t k = 0; k < in; ++k) {
        const double term =
            x(i, k) * static_cast<double>(test::rounded(type, weights[static_cast<std::size_t>(j * in + k)]));
        sum += term;
        magnitude += std::abs(term);
      }
      const double b = biases[static_cast<std::size_t>(j)], result = sum + b;
      // The result's rounding, one of the bias (epilogues) or of the product (a pass of its own), and 91 additions.
      const double bound = unit * (std::abs(result) + std::max(std::abs(b), std::abs(sum))) * (1 + unit) +
                           91 * 0x1p-24 * (magnitude + std::abs(b)) + 0x1p-24;
      if (!(std::abs(y(i, j) - result) <= bound) || !(std::abs(pre(i, j) - result) <= bound)) ++wrong;
    }
  }
  CHECK(wrong == 0);
}
