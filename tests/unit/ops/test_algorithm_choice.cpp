// What back ends on GPUs decide before they call a library: buckets of rows, the choice among measured algorithms, and
// which products a linear layer is.
#include "../src/ops/algorithm_choice.hpp"

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <set>
#include <vector>

#include "../src/ops/cuda/matmul.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fusion.hpp"

using namespace bert_hpc;

TEST_CASE("buckets of rows are the least of 1, 2, 3, 4, 6, 8, … that hold them") {
  CHECK(ops::row_bucket(0) == 1);
  const std::vector<std::int64_t> buckets = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128};
  std::size_t next = 0;
  for (std::int64_t rows = 1; rows <= 128; ++rows) {
    if (rows > buckets[next]) ++next;
    CHECK(ops::row_bucket(rows) == buckets[next]);
    CHECK(ops::row_bucket(buckets[next]) == buckets[next]);
  }
  CHECK(ops::row_bucket(4097) == 6144);
  // What 8-bit numbers want of rows to sum over, buckets of theirs have too.
  for (std::int64_t rows = 16; rows <= 4096; rows += 16) CHECK(ops::row_bucket(rows) % 16 == 0);
}

TEST_CASE("buckets are tried from the largest batch down to an eighth of it") {
  CHECK(ops::buckets_to_try(16384) == std::vector<std::int64_t>{16384, 12288, 8192, 6144, 4096, 3072, 2048});
  CHECK(ops::buckets_to_try(9000) == std::vector<std::int64_t>{12288, 8192, 6144, 4096, 3072, 2048, 1536});
  CHECK(ops::buckets_to_try(1) == std::vector<std::int64_t>{1});
  CHECK(ops::buckets_to_try(5) == std::vector<std::int64_t>{6, 4, 3, 2, 1});
}

TEST_CASE("the fastest algorithm is taken, an earlier one where they are equal but for noise, none that failed") {
  const auto choose = [](const std::vector<float>& times) { return ops::choose_algorithm(times); };
  CHECK(choose({3.0f, 1.0f, 2.0f}) == 1);
  CHECK(choose({1.019f, 1.5f, 1.0f}) == 0);
  CHECK(choose({1.03f, 1.5f, 1.0f}) == 2);
  CHECK(choose({NAN, 0.0f, 5.0f, -1.0f, INFINITY}) == 2);
  CHECK(choose({NAN, INFINITY}) == 2);
  CHECK(choose({}) == 0);
}

TEST_CASE("an alignment is the largest power of two that divides address and stride") {
  alignas(16) static std::uint16_t memory[64];
  const auto alignment = [](int element, std::int64_t stride, core::DataType type) {
    return ops::Matmul::Operand{memory + element, stride, type}.alignment();
  };
  CHECK(alignment(0, 768, core::DataType::bf16) == 16);
  CHECK(alignment(4, 768, core::DataType::bf16) == 8);
  CHECK(alignment(0, 770, core::DataType::bf16) == 4);
  CHECK(alignment(1, 768, core::DataType::bf16) == 2);
  CHECK(alignment(0, 769, core::DataType::bf16) == 2);
  CHECK(alignment(0, 769, core::DataType::fp32) == 4);
}

TEST_CASE("the products of a linear layer are those that layers call, each with its own key") {
  alignas(16) static float memory[16];
  const ops::LinearOperands at{memory, memory, memory, memory, memory, memory};
  const std::int64_t rows = 700, in = 64, out = 128;
  const auto all = ops::linear_products(rows, in, out, core::DataType::bf16, at);
  std::set<ops::MatmulKey> keys;
  double forward = 0, sums = 0, epilogues = 0;
  for (const ops::Matmul& p : all) {
    CHECK(p.m * p.n * p.k == rows * in * out);
    CHECK(p.rows() == rows);
    // Strides are the columns as they are stored, which 64 divides here.
    CHECK(p.a.stride == (p.a.transposed ? p.m : p.k));
    CHECK(p.b.stride == (p.b.transposed ? p.k : p.n));
    CHECK(p.c.stride == p.n);
    forward += p.b.transposed;
    sums += p.sums_over_rows();
    epilogues += p.has_epilogue();
    CHECK((p.bias == nullptr || p.b.transposed));
    CHECK((p.sums_of_a == nullptr || (p.sums_over_rows() && p.beta == 0.0f)));
    CHECK(keys.insert(ops::key_of(p, ops::row_bucket(rows))).second);
    // What is tried for the largest of a bucket is taken for others of it, and for no other bucket.
    ops::Matmul fewer = p;
    fewer.rows() = 600;
    CHECK(ops::key_of(fewer, ops::row_bucket(fewer.rows())) == ops::key_of(p, ops::row_bucket(rows)));
    fewer.rows() = 500;
    CHECK(ops::key_of(fewer, ops::row_bucket(fewer.rows())) != ops::key_of(p, ops::row_bucket(rows)));
  }
  CHECK((all.size() == 7 && forward == 2 && sums == 3 && epilogues == 2));
  ops::LinearOperands without = at;
  without.bias = nullptr;
  CHECK(ops::linear_products(rows, in, out, core::DataType::bf16, without).size() == 6);
  without.d_bias = nullptr;
  CHECK(ops::linear_products(rows, in, out, core::DataType::bf16, without).size() == 5);
}

TEST_CASE("the products of a series have keys of their own, and their operands lie side by side") {
  alignas(16) static float memory[16];
  const ops::LinearOperands at{.x = memory, .y = memory, .w = memory, .d_w = memory};
  const std::int64_t rows = 700, in = 64, out = 8;
  std::set<ops::MatmulKey> keys;
  for (const std::int64_t series : {1, 2, 3}) {
    const auto all = ops::linear_products(rows, in, out, core::DataType::bf16, at, series);
    CHECK(all.size() == 5);
    for (const ops::Matmul& p : all) {
      CHECK((p.count == series && p.alpha == 1.0f));
      CHECK(p.m * p.n * p.k == rows * in * out);
      CHECK(keys.insert(ops::key_of(p, ops::row_bucket(rows))).second);
      if (series == 1) continue;
      const bool forward = p.b.transposed, weight = p.sums_over_rows();
      CHECK(p.a.step == (forward ? in : out));
      CHECK(p.b.step == (weight ? in : in * out));
      CHECK(p.c.step == (forward ? out : weight ? in * out : in));
    }
  }
  // A step that is no multiple of 16 bytes takes whole vectors away.
  ops::Matmul::Operand x{memory, 64, core::DataType::bf16};
  x.step = 12;
  CHECK(x.alignment() == 8);
}

TEST_CASE(
    "biases are added by epilogues in the types that the library has, and never in reproducible 16-bit products") {
  using core::DataType;
  using enum ops::BiasAdded;
  for (const bool copied : {false, true}) {
    for (const bool fuses : {false, true}) {
      for (const bool reproducible : {false, true}) {  // fp32 has one arithmetic
        CHECK(ops::how_bias_is_added(DataType::fp32, DataType::fp32, copied, reproducible, fuses) == in_epilogue);
      }
      for (const DataType half : {DataType::bf16, DataType::fp16}) {
        const auto rounded = fuses && copied ? rounded_in_epilogue : by_kernel;
        CHECK(ops::how_bias_is_added(half, half, copied, false, fuses) == rounded);
        CHECK(ops::how_bias_is_added(half, DataType::fp32, copied, false, fuses) == (fuses ? in_epilogue : by_kernel));
        CHECK(ops::how_bias_is_added(half, half, copied, true, fuses) == by_kernel);
        CHECK(ops::how_bias_is_added(half, DataType::fp32, copied, true, fuses) == by_kernel);
      }
    }
  }
}

TEST_CASE("the choice of an algorithm depends on the operands of the epilogue, too") {
  alignas(16) static std::uint16_t memory[64];
  const ops::Matmul::Operand x{memory, 64, core::DataType::bf16};
  ops::Matmul plain{.m = 8, .n = 64, .k = 64, .a = x, .b = x, .c = x};
  CHECK((!plain.has_epilogue() && plain.result_alignment() == 16));
  ops::Matmul biased = plain, shifted = plain, summing = plain;
  biased.bias = memory;
  shifted.bias = memory + 1;
  summing.sums_of_a = memory + 4;
  CHECK((biased.has_epilogue() && biased.result_alignment() == 16));
  CHECK((shifted.has_epilogue() && shifted.result_alignment() == 2));
  CHECK((summing.has_epilogue() && summing.result_alignment() == 8));
  const std::set<ops::MatmulKey> keys = {ops::key_of(plain, 8), ops::key_of(biased, 8), ops::key_of(shifted, 8),
                                         ops::key_of(summing, 8)};
  CHECK(keys.size() == 4);
}

TEST_CASE("the setting of fusion is on, off or all") {
  CHECK(ops::fusion_of("on") == ops::Fusion());
  CHECK((ops::fusion_of("on").biases && ops::fusion_of("on").row_sums && !ops::fusion_of("on").bias_gradients));
  CHECK(ops::fusion_of("off") == ops::Fusion{.biases = false, .row_sums = false, .bias_gradients = false});
  CHECK(ops::fusion_of("all").bias_gradients);
  CHECK_THROWS_AS(ops::fusion_of("of"), core::Error);
  CHECK(ops::fusion() == ops::fusion_of("on"));
  ops::set_fusion(ops::fusion_of("all"));
  CHECK(ops::fusion().bias_gradients);
  ops::set_fusion({});
}

TEST_CASE("a product with another number of rows fits into the memory that its strides describe") {
  // The rows of transposed 8-bit copies are contiguous.
  const ops::Matmul::Operand d_y{.stride = 320, .eight = core::Float8::e5m2},
      x{.stride = 320, .transposed = true, .eight = core::Float8::e4m3};
  const ops::Matmul sums{
      .m = 64, .n = 32, .k = 320, .a = d_y, .b = x, .c = {.stride = 32}, .beta = 1, .sums_over_padded_rows = true};
  const ops::Matmul more = ops::with_rows(sums, 4096);
  CHECK((more.k == 4096 && more.a.stride == 4096 && more.b.stride == 4096));
  CHECK((more.m == 64 && more.n == 32 && more.c.stride == 32));
  CHECK(ops::key_of(more, 4096) == ops::key_of(sums, 4096));
  // Others have rows above each other: strides are what they were.
  for (const ops::Matmul& product : ops::linear_products(320, 32, 64, core::DataType::bf16, {})) {
    const ops::Matmul other = ops::with_rows(product, 4096);
    CHECK(other.rows() == 4096);
    CHECK((other.a.stride == product.a.stride && other.b.stride == product.b.stride));
    CHECK(other.a.stride >= (other.a.transposed ? other.m : other.k));
  }
}
