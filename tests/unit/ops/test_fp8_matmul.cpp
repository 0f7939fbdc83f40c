// The calls of a library that FP8 products become: each satisfies what cuBLASLt demands, for any number of rows, and is
// among those whose algorithms are tried.
#include "../src/ops/cuda/fp8_matmul.hpp"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <functional>
#include <set>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/ops/random_fill.hpp"
#include "support/fp8_case.hpp"

using namespace bert_hpc;
using core::Float8;
using ops::Matmul;
using test::DataType;
using test::Matrix;
using test::StoredMatrix;

namespace {

/// Notes the calls and computes nothing.
class RecordedFp8Product final : public ops::ByteFp8Product {
 public:
  using ByteFp8Product::ByteFp8Product;
  std::string name() const override { return "recorded FP8"; }
  std::vector<Matmul> calls;

 private:
  void multiply(const ops::Fp8Matmul& product) override { calls.push_back(ops::call_of(product)); }
  bool adds_bias(const ops::Fp8Matmul&) override { return true; }
};

/// All calls of the second of two layers (out, in); the bias has a copy in bf16.
std::vector<Matmul> calls_of(std::int64_t rows, std::int64_t in, std::int64_t out) {
  const auto inner = ops::make_matrix_product("", {.compute = DataType::bf16});
  core::ParameterStore store({{"first", {32, 16}}, {"second", {out, in}}, {"bias", {out}, false}},
                             core::ParameterStore::Arenas::values);
  ops::fill_normal(store.change_values(), 0.3f, 1);
  inner->keep_weights(store);
  const core::Tensor<const float> w = store.value(1);
  RecordedFp8Product product(*inner, {{0, "first", store.value(0)}, {1, "second", w}}, true);
  product.reserve({rows, in, out});
  product.scales().end_step();
  product.note_weights();
  product.round_weights();
  const StoredMatrix x(DataType::bf16, rows, in);
  StoredMatrix y(DataType::bf16, rows, out), d_x(DataType::bf16, rows, in);
  Matrix d_w(out, in);
  ops::MatrixProduct& layer = product.of(1);
  layer.forward(x, w, store.value(2).data, y);
  layer.forward(x, w, nullptr, y);
  for (const ops::Write write : {ops::Write::replace, ops::Write::accumulate}) {
    layer.backward_input(y, w, d_x, write);
    layer.backward_weight(y, x, d_w.tensor(), nullptr, write);
  }
  return product.calls;
}

ops::MatmulKey key(const Matmul& call, std::int64_t rows) {
  return ops::key_of(ops::with_rows(call, rows), rows);
}

}  // namespace

TEST_CASE("cuBLASLt refuses no product of an FP8 layer, whatever its rows") {
  const auto [in, out] = GENERATE(std::pair{16, 48}, std::pair{96, 32});
  std::vector<std::int64_t> all = {201, 208, 1000, 5065, 5072};
  for (std::int64_t rows = 1; rows <= 40; ++rows) all.push_back(rows);
  alignas(16) static std::uint8_t memory[16];
  auto* floats = reinterpret_cast<float*>(memory);
  for (const std::int64_t rows : all) {
    CAPTURE(rows, in, out);
    const std::vector<Matmul> calls = calls_of(rows, in, out);
    REQUIRE(calls.size() == 6);
    std::set<ops::MatmulKey> tried;
    for (const Matmul& call :
         ops::fp8_products(rows, in, out, {memory, memory, memory, memory, floats, floats, memory})) {
      CHECK(ops::refused(call) == nullptr);
      tried.insert(key(call, ops::row_bucket(call.rows())));
    }
    CHECK(tried.size() == 6);
    CHECK(std::count_if(calls.begin(), calls.end(), [](const Matmul& p) { return p.bias != nullptr; }) == 1);
    CHECK(std::count_if(calls.begin(), calls.end(), [](const Matmul& p) { return p.fast_sums; }) == 2);
    for (const Matmul& call : calls) {
      const char* reason = ops::refused(call);
      CHECK((reason == nullptr ? "" : std::string(reason)).empty());
      // An algorithm is asked for with another number of rows.
      for (const std::int64_t nominal : {ops::row_bucket(call.rows()), std::int64_t{4096}}) {
        CHECK(ops::refused(ops::with_rows(call, nominal)) == nullptr);
      }
      CHECK(tried.contains(key(call, ops::row_bucket(call.rows()))));
      CHECK(call.rows() == (call.sums_over_padded_rows ? ops::padded_rows(rows) : rows));
    }
  }
}

TEST_CASE("what cuBLASLt refuses of 8-bit products is found before it is called") {
  alignas(16) static std::uint8_t memory[64];
  const auto* scale = reinterpret_cast<const float*>(memory);
  const Matmul good{.m = 23,
                    .n = 32,
                    .k = 48,
                    .a = {.data = memory, .stride = 48, .eight = Float8::e5m2, .inverse = scale},
                    .b = {.data = memory, .stride = 48, .transposed = true, .eight = Float8::e4m3, .inverse = scale},
                    .c = {.data = memory, .stride = 32, .type = DataType::bf16}};
  CHECK(ops::refused(good) == nullptr);
  const auto refused = [&good](const std::function<void(Matmul&)>& change) {
    Matmul bad = good;
    change(bad);
    return ops::refused(bad) != nullptr;
  };
  CHECK(refused([](Matmul& p) { p.a.eight.reset(); }));
  CHECK(refused([](Matmul& p) { p.b.eight = Float8::e5m2; }));
  CHECK(refused([](Matmul& p) { p.a.transposed = true; }));
  CHECK(refused([](Matmul& p) { p.b.transposed = false; }));
  CHECK(refused([](Matmul& p) { p.n = 24; }));
  CHECK(refused([](Matmul& p) { p.k = 40; }));
  CHECK(refused([](Matmul& p) { p.m = 0; }));
  CHECK(refused([](Matmul& p) { p.a.stride = 56; }));
  CHECK(refused([](Matmul& p) { p.b.stride = 32; }));
  CHECK(refused([](Matmul& p) { p.c.stride = 36; }));
  CHECK(refused([](Matmul& p) { p.a.data = memory + 8; }));
  CHECK(refused([](Matmul& p) { p.c.data = memory + 8; }));
  CHECK(refused([scale](Matmul& p) { p.a.inverse = scale + 2; }));
  CHECK(refused([](Matmul& p) { p.b.inverse = nullptr; }));
  CHECK(!refused([](Matmul& p) { p.bias = memory; }));
  CHECK(refused([](Matmul& p) { p.bias = memory + 8; }));
  CHECK(refused([](Matmul& p) {
    p.bias = memory;
    p.c.type = DataType::fp32;
  }));
  CHECK(refused([](Matmul& p) { p.sums_of_a = memory; }));
}
