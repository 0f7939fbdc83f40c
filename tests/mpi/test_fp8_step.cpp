// Scales of FP8 operands are the same on all ranks that share a layer, and follow from what all of them have seen.
#include <catch2/catch_test_macros.hpp>
#include <string>

#include "bert_hpc/ops/fp8_rounding.hpp"
#include "bert_hpc/train/fp8_step.hpp"
#include "support/stored_matrix.hpp"
#include "support/world.hpp"

using namespace bert_hpc;
using ops::Fp8Operand;
using test::world;

namespace {

/// A layer of which every rank has a part, with weights of its own size.
struct Fixture {
  explicit Fixture(float weight) : w(16, 32) {
    for (std::int64_t i = 0; i < 16; ++i) {
      for (std::int64_t j = 0; j < 32; ++j) w(i, j) = weight;
    }
    inner = ops::make_matrix_product("", {.compute = core::DataType::bf16});
    product = ops::make_fp8_product(*inner, {{.id = 0, .name = "layer", .weight = w.tensor()}}, {.portable = true});
    product->reserve({4, 32, 32});
  }
  float scale(Fp8Operand operand) { return test::copy_of(product->scales().of(0, operand).scale, 1)[0]; }
  void see(Fp8Operand operand, float magnitude) {
    test::StoredMatrix x(core::DataType::bf16, 1, 1);
    x.set(0, 0, magnitude);
    ops::note_magnitude(x, product->scales().of(0, operand));
  }

  test::Matrix w;
  std::unique_ptr<ops::MatrixProduct> inner;
  std::unique_ptr<ops::Fp8Product> product;
};

bool everywhere(bool holds) {
  return !world().any(!holds);
}

}  // namespace

TEST_CASE("a step's FP8 scales follow from the largest magnitudes of all ranks") {
  // 2, 8, 32 … on the ranks; once the tensor group has all of them, once the data group.
  const auto magnitude = [](int rank) { return std::ldexp(2.0f, 2 * rank); };
  const int last = world().size() - 1;
  const auto alone = comm::make_self_communicator();
  for (const bool tensor : {true, false}) {
    comm::Communicator &shares = tensor ? world() : *alone, &replicas = tensor ? *alone : world();
    Fixture layer(magnitude(tensor ? world().rank() : 0));
    train::begin_fp8_step(*layer.product, shares);
    layer.see(Fp8Operand::x, magnitude(world().rank()));
    layer.see(Fp8Operand::d_y, 1e-6f / magnitude(world().rank()));
    train::end_fp8_step(*layer.product, shares, replicas, false);
    train::begin_fp8_step(*layer.product, shares);
    using core::Float8;
    CHECK(everywhere(layer.scale(Fp8Operand::x) == core::float8_scale(magnitude(last), Float8::e4m3)));
    CHECK(
        everywhere(layer.scale(Fp8Operand::weight) == core::float8_scale(magnitude(tensor ? last : 0), Float8::e4m3)));
    const float d_y = test::rounded(core::DataType::bf16, 1e-6f / magnitude(0));
    CHECK(everywhere(layer.scale(Fp8Operand::d_y) == core::float8_scale(d_y, Float8::e5m2)));
    // A skipped step: nothing of it stays.
    const std::string before = layer.product->scales().text();
    layer.see(Fp8Operand::x, 1e30f);
    train::end_fp8_step(*layer.product, shares, replicas, true);
    CHECK(everywhere(layer.product->scales().text() == before));
    train::end_fp8_step(*layer.product, shares, replicas, false);
    CHECK(everywhere(layer.scale(Fp8Operand::x) == core::float8_scale(magnitude(last), Float8::e4m3)));
  }
}
