// The tensor cores' attention kernels (src/ops/cuda), run on the host by an emulator of a GPU's warp: the very source
// that nvcc compiles, for every head size and type, against a loop in double.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <set>

#include "../../../src/ops/cuda/attention_backward.hpp"
#include "../../../src/ops/cuda/attention_choice.hpp"
#include "../../../src/ops/cuda/attention_forward.hpp"
#include "support/attention_case.hpp"
#include "support/emulated_warp.hpp"

using namespace bert_hpc;
using namespace bert_hpc::ops::cuda;
using test::AttentionCase;
using test::AttentionCheck;
using test::AttentionResults;
using test::DataType;
using test::EmulatedDevice;
using test::EmulatedWarp;

namespace {

void allow(EmulatedDevice& device, const core::ConstMatrix& x, bool writes) {
  const std::int64_t elements = x.rows == 0 ? 0 : (x.rows - 1) * x.stride + x.columns;
  device.allow(x.data, static_cast<std::size_t>(elements * bytes_of(x.type)), writes);
}

/// The arrays of a case, of exactly their sizes.
void allow_arrays(EmulatedDevice& device, const AttentionCase& c, const AttentionResults& r, bool forward) {
  device.forget_arrays();
  for (const core::ConstMatrix& x : {core::ConstMatrix(c.q), c.k(), c.v()}) allow(device, x, false);
  allow(device, r.out, forward);
  allow(device, r.lse, forward);
  for (const auto* rows : {&c.queries, &c.keys}) {
    device.allow(rows->offsets.data(), rows->offsets.size() * 4, false);
    device.allow(rows->position.data(), rows->position.size() * 4, false);
  }
  if (c.dropout.probability > 0.0f) device.allow(c.samples.data(), c.samples.size() * 8, false);
  if (forward) return;
  allow(device, c.d_out, false);
  for (const core::ConstMatrix& x :
       {core::ConstMatrix(r.d_q), core::ConstMatrix(r.d_k()), core::ConstMatrix(r.d_v())}) {
    allow(device, x, true);
  }
}

template <class T, int D>
void emulate(EmulatedDevice& device, const AttentionCase& c, AttentionResults& r) {
  const auto queries = c.queries.view(), keys = c.keys.view();
  AttentionCall<T> call = attention_call<T>(c.extents, queries, keys, c.dropout, c.q, c.k(), c.v());
  const auto run = [&](const Launch& how, const auto& body) {
    device.launch(how.blocks_x, static_cast<int>(how.blocks_y), how.threads / 32, how.shared_bytes, body);
  };
  call.out = core::Matrix(r.out).as<T>();
  call.log_sum_exp = r.lse;
  allow_arrays(device, c, r, true);
  run(forward_launch<D>(c.extents, queries), [&] { attention_forward<EmulatedWarp, T, D>(call); });

  call.saved_out = core::ConstMatrix(r.out).as<T>();
  call.saved_log_sum_exp = r.lse;
  call.d_out = core::ConstMatrix(c.d_out).as<T>();
  call.d_q = core::Matrix(r.d_q).as<T>();
  call.d_k = r.d_k().as<T>();
  call.d_v = r.d_v().as<T>();
  allow_arrays(device, c, r, false);
  run(dots_launch<D>(c.extents, queries), [&] { attention_dots<EmulatedWarp, T, D>(call); });
  run(backward_keys_launch<D>(c.extents, keys), [&] { attention_backward_keys<EmulatedWarp, T, D>(call); });
  run(backward_queries_launch<D>(c.extents, queries), [&] { attention_backward_queries<EmulatedWarp, T, D>(call); });
}

AttentionResults emulate(EmulatedDevice& device, const AttentionCase& c) {
  AttentionResults r(c);
  const auto with_head = [&]<class T>() {
    switch (c.extents.head_dim) {
      case 32:
        return emulate<T, 32>(device, c, r);
      case 64:
        return emulate<T, 64>(device, c, r);
      default:
        return emulate<T, 128>(device, c, r);
    }
  };
  if (c.type == DataType::bf16) {
    with_head.template operator()<core::Bf16>();
  } else {
    with_head.template operator()<core::Fp16>();
  }
  return r;
}

void check(const AttentionCase& c) {
  EmulatedDevice device;
  const AttentionResults r = emulate(device, c);
  const AttentionCheck wrong(c, r);
  CHECK(wrong.wrong_out == 0);
  CHECK(wrong.wrong_lse == 0);
  CHECK(wrong.wrong_d_q == 0);
  CHECK(wrong.wrong_d_k == 0);
  CHECK(wrong.wrong_d_v == 0);
  CHECK(r.out.padding_untouched());
  CHECK(r.d_q.padding_untouched());
  CHECK(r.d_kv.padding_untouched());
  for (const std::string& complaint : std::set<std::string>(device.complaints().begin(), device.complaints().end())) {
    FAIL_CHECK(complaint);
  }
}

DataType a_type() {
  return GENERATE(DataType::bf16, DataType::fp16);
}
std::int64_t a_head_size() {
  return GENERATE(32, 64, 128);
}

}  // namespace

TEST_CASE("tensor cores' attention of sequences of every length against double") {
  const DataType type = a_type();
  const std::int64_t head_dim = a_head_size();
  const float probability = GENERATE(0.0f, 0.1f);
  CAPTURE(core::name_of(type), head_dim, probability);
  const std::vector<int> lengths{1, 129, 2, 63, 15, 64, 16, 127, 17, 65, 128, 200};
  check(AttentionCase(type, test::every_position(lengths), lengths, 1, head_dim, probability));
}

TEST_CASE("tensor cores' attention of a long sequence against double") {
  const std::int64_t head_dim = a_head_size();
  const DataType type = head_dim == 64 ? DataType::fp16 : DataType::bf16;
  check(AttentionCase(type, test::every_position({512}), {512}, 1, head_dim, 0.1f));
}

TEST_CASE("tensor cores' attention of several heads, which may be some of a layer's") {
  const DataType type = a_type();
  const std::vector<int> lengths{40, 3, 70};
  check(AttentionCase(type, test::every_position(lengths), lengths, 3, 32, 0.3f, 5));
}

TEST_CASE("tensor cores' attention of selected query rows, some sequences without any") {
  const DataType type = a_type();
  const std::int64_t head_dim = a_head_size();
  const float probability = GENERATE(0.0f, 0.2f);
  check(AttentionCase(type, {{0}, {}, {3, 8, 11}, {0, 69}}, {4, 9, 12, 70}, 2, head_dim, probability));
}

TEST_CASE("tensor cores' attention finds rows among many sequences") {
  // Around a warp's lanes and their square; some sequences without rows.
  for (const int count : {1, 2, 31, 32, 33, 1023, 1024, 1025, 1100}) {
    std::vector<std::int32_t> offsets{0};
    for (int b = 0; b < count; ++b) {
      const int length = b == count / 2 ? 140 : b % 11 == 3 ? 0 : 1 + b * 7 % 5;
      offsets.push_back(offsets.back() + length);
    }
    constexpr int tile = 64;
    std::vector<int> found(static_cast<std::size_t>(offsets.back()));
    std::int64_t wrong = 0;
    EmulatedDevice device;
    device.allow(offsets.data(), offsets.size() * 4, false);
    device.launch(1, 1, 1, 0, [&] {
      for (int slot = 0; slot < row_slots(offsets.back(), count, tile); ++slot) {
        const BlockRows r = block_rows<EmulatedWarp>(offsets.data(), count, tile, slot);
        const auto sequence = static_cast<std::size_t>(r.sequence);
        for (int row = 0; row < r.rows; ++row) ++found[static_cast<std::size_t>(r.first + row)];
        if (r.rows > 0 &&
            (r.rows > tile || r.first != offsets[sequence] + r.start || r.first + r.rows > offsets[sequence + 1])) {
          ++wrong;
        }
      }
    });
    CAPTURE(count);
    CHECK(wrong == 0);
    CHECK(std::count(found.begin(), found.end(), 1) == offsets.back());
    CHECK(device.complaints().empty());
  }
}

TEST_CASE("tensor cores' attention has the same bits in every run, row by row") {
  const DataType type = a_type();
  const std::vector<int> lengths{200, 41};
  const AttentionCase all(type, test::every_position(lengths), lengths, 1, 64, 0.1f);
  EmulatedDevice device;
  const AttentionResults first = emulate(device, all), second = emulate(device, all);
  CHECK(first.out.same_bits(second.out));
  CHECK(first.d_q.same_bits(second.d_q));
  CHECK(first.d_kv.same_bits(second.d_kv));

  // A selection of rows, each elsewhere in its tile.
  AttentionCase some(type, {{7, 130, 199}, {40}}, lengths, 1, 64, 0.1f);
  const int from[4] = {7, 130, 199, 240};
  for (int i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) {
      some.q.set(i, j, all.q(from[i], j));
      some.d_out.set(i, j, all.d_out(from[i], j));
    }
  }
  const AttentionResults few = emulate(device, some);
  for (int i = 0; i < 4; ++i) {
    CHECK(std::memcmp(few.out.view().row(i), first.out.view().row(from[i]), 128) == 0);
    CHECK(std::memcmp(few.d_q.view().row(i), first.d_q.view().row(from[i]), 128) == 0);
    CHECK(few.lse(0, i) == first.lse(0, from[i]));
  }
}

TEST_CASE("tensor cores' attention survives large scores") {
  AttentionCase c(DataType::bf16, test::every_position({80}), {80}, 1, 32, 0.0f);
  for (std::int64_t i = 0; i < 80; ++i) {
    for (std::int64_t j = 0; j < 32; ++j) c.q.set(i, j, c.q(i, j) * 128.0f);
  }
  EmulatedDevice device;
  const AttentionResults r = emulate(device, c);
  for (std::int64_t i = 0; i < 80; ++i) {
    for (std::int64_t j = 0; j < 32; ++j) {
      // Within the values' range: scores up to 700 leave one or two keys for a query.
      CHECK(std::abs(r.out(i, j)) < 6.0f);
      CHECK(std::isfinite(r.d_q(i, j)));
      CHECK(std::isfinite(r.d_kv(i, j)));
    }
  }
  CHECK(AttentionCheck(c, r).wrong_lse <= 80 * 80);
}

TEST_CASE("shared memory of tensor cores' attention is within what every GPU has, and without bank conflicts") {
  const std::int64_t head_dim = a_head_size();
  EmulatedDevice device;
  emulate(device, AttentionCase(DataType::bf16, test::every_position({130}), {130}, 1, head_dim, 0.1f));
  CHECK(device.wavefronts > 1000);
  CHECK(device.conflicts == 0);
  // Two blocks in the 100 KiB of the smallest multiprocessors since sm_80 (1 KiB of a block is CUDA's own) would be
  // best; one is a must.
  const auto most = [](auto d) {
    constexpr int D = decltype(d)::value;
    return std::max({ForwardShape<D>::shared_bytes, BackwardShape<D>::key_bytes, BackwardShape<D>::query_bytes});
  };
  CHECK(most(std::integral_constant<int, 32>()) <= 49 * 1024);
  CHECK(most(std::integral_constant<int, 64>()) <= 49 * 1024);
  CHECK(most(std::integral_constant<int, 128>()) <= 99 * 1024);
}

TEST_CASE("the GPU's attention kernels are chosen by type, head size and device") {
  for (const auto type : {DataType::bf16, DataType::fp16}) {
    for (const int head_dim : {32, 64, 128}) CHECK(tensor_cores_attend(type, head_dim, 80));
    for (const int head_dim : {1, 16, 48, 80, 96, 256}) CHECK_FALSE(tensor_cores_attend(type, head_dim, 90));
    CHECK_FALSE(tensor_cores_attend(type, 64, 75));
    CHECK(attention_name(type, 64, 90) == "fused, tensor cores");
    CHECK(attention_name(type, 80, 90) == "fused, portable kernels for heads of 80");
  }
  CHECK_FALSE(tensor_cores_attend(DataType::fp32, 64, 90));
  CHECK(attention_name(DataType::fp32, 64, 90) == "fused, portable kernels for fp32");
}
