// Runs the tensor cores' attention kernels (src/ops/cuda) by the emulator of a GPU's warp: the very source that nvcc
// compiles.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <set>
#include <string>

#include "../../src/ops/cuda/attention_backward.hpp"
#include "../../src/ops/cuda/attention_backward_sequence.hpp"
#include "../../src/ops/cuda/attention_bias_gradient.hpp"
#include "../../src/ops/cuda/attention_choice.hpp"
#include "../../src/ops/cuda/attention_forward.hpp"
#include "support/attention_case.hpp"
#include "support/emulated_warp.hpp"

namespace bert_hpc::test {

using namespace bert_hpc;
using namespace bert_hpc::ops::cuda;

inline void allow(EmulatedDevice& device, const core::ConstMatrix& x, bool writes) {
  const std::int64_t elements = x.rows == 0 ? 0 : (x.rows - 1) * x.stride + x.columns;
  device.allow(x.data, static_cast<std::size_t>(elements * bytes_of(x.type)), writes);
}

/// The arrays of a case, of exactly their sizes.
inline void allow_arrays(EmulatedDevice& device, const AttentionCase& c, AttentionResults& r, bool forward) {
  device.forget_arrays();
  for (const core::ConstMatrix& x : {core::ConstMatrix(c.q), c.k(), c.v()}) allow(device, x, false);
  allow(device, r.out, forward);
  allow(device, r.lse, forward);
  for (const auto* rows : {&c.queries, &c.keys}) {
    device.allow(rows->offsets.data(), rows->offsets.size() * 4, false);
    device.allow(rows->position.data(), rows->position.size() * 4, false);
  }
  if (!c.real_keys.empty()) device.allow(c.real_keys.data(), c.real_keys.size() * 4, false);
  if (c.dropout.probability > 0.0f) {
    device.allow(c.samples.data(), c.samples.size() * 8, false);
    device.allow(r.kept_words.data(), r.kept_words.size() * 8, forward);
  }
  if (c.bias) {
    const ops::PositionBias bias = c.bias->host_view();
    allow(device, core::ConstMatrix(bias.table), false);
    device.allow(bias.bucket, static_cast<std::size_t>(2 * bias.reach + 1) * 4, false);
  }
  if (forward) return;
  allow(device, c.d_out, false);
  for (const core::ConstMatrix& x :
       {core::ConstMatrix(r.d_q), core::ConstMatrix(r.d_k()), core::ConstMatrix(r.d_v())}) {
    allow(device, x, true);
  }
}

/// run.template operator()<Shape>() for the kernels whose blocks take sequences.
template <int D>
void with_shape(BackwardKernel kernel, const auto& run) {
  if (kernel == BackwardKernel::four_warps) run.template operator()<FourWarps<D>>();
  if (kernel == BackwardKernel::eight_warps) run.template operator()<EightWarps<D>>();
  if constexpr (D == 64) {
    if (kernel == BackwardKernel::eight_warps_small) run.template operator()<EightWarpsSmall>();
  }
}

/// With a position bias its gradient too, in d_bias, as of ops::AttentionGradients.
template <class T, int D>
void emulate(EmulatedDevice& device, const AttentionCase& c, BackwardKernel kernel, AttentionResults& r,
             Matrix* d_bias) {
  const HostOperands operands;
  const auto queries = c.queries.view(), keys = c.keys.view();
  AttentionCall<T> call = attention_call<T>(c.inputs(), r.kept_rows);
  const auto run = [&](const Launch& how, const auto& body) {
    device.launch(how.blocks_x, static_cast<int>(how.blocks_y), how.threads / 32, how.shared_bytes, body);
  };
  const bool masked = c.mask.is_limited(), biased = c.bias.has_value();
  call.out = core::Matrix(r.out).as<Stored<T>>();
  call.log_sum_exp = r.lse;
  call.kept = r.kept();
  allow_arrays(device, c, r, true);
  run(forward_launch<T, D>(c.extents, queries, biased), [&] {
    call.threshold != 0 ? attention_forward<EmulatedWarp, T, D, true>(call, masked, biased)
                        : attention_forward<EmulatedWarp, T, D, false>(call, masked, biased);
  });

  call.saved_out = core::ConstMatrix(r.out).as<Stored<T>>();
  call.saved_log_sum_exp = r.lse;
  call.saved_kept = r.kept();
  call.d_out = core::ConstMatrix(c.d_out).as<Stored<T>>();
  call.d_q = core::Matrix(r.d_q).as<Stored<T>>();
  call.d_k = r.d_k().as<Stored<T>>();
  call.d_v = r.d_v().as<Stored<T>>();
  allow_arrays(device, c, r, false);
  if (kernel == BackwardKernel::split) {
    run(dots_launch<T, D>(c.extents, queries), [&] { attention_dots<EmulatedWarp, T, D>(call); });
    run(backward_keys_launch<T, D>(c.extents, keys, biased),
        [&] { attention_backward_keys<EmulatedWarp, T, D>(call, masked, biased); });
    if (d_bias != nullptr) {
      call.d_bias = d_bias->host();
      allow(device, core::Matrix(call.d_bias), true);
      run(bias_gradient_launch<T, D>(c.extents), [&] { attention_bias_gradient<EmulatedWarp, T, D>(call); });
    }
    run(backward_queries_launch<T, D>(c.extents, queries, biased),
        [&] { attention_backward_queries<EmulatedWarp, T, D>(call, masked, biased); });
  }
  if constexpr (D <= 64 && !stores_floats<T>) {
    with_shape<D>(kernel, [&]<class Shape>() {
      call.planned_rows = Shape::padded(c.extents.max_length);
      run(backward_sequence_launch<Shape>(c.extents, c.extents.max_length), [&] {
        if (call.real_keys != nullptr || masked) {
          return attention_backward_sequence<EmulatedWarp, T, D, Shape, true>(call, masked);
        }
        attention_backward_sequence<EmulatedWarp, T, D, Shape, false>(call, false);
      });
    });
  }
}

/// Runs the kernels for the operand kind of the case, which is one of Kinds.
template <class... Kinds>
AttentionResults emulate(EmulatedDevice& device, const AttentionCase& c, BackwardKernel kernel = BackwardKernel::split,
                         Matrix* d_bias = nullptr) {
  AttentionResults r(c);
  const auto with_kind = [&]<class T>() {
    if (c.type != core::data_type_of<Stored<T>> || c.tf32 != std::is_same_v<T, Tf32>) return;
    switch (c.extents.head_dim) {
      case 32:
        return emulate<T, 32>(device, c, kernel, r, d_bias);
      case 64:
        return emulate<T, 64>(device, c, kernel, r, d_bias);
      default:
        return emulate<T, 128>(device, c, kernel, r, d_bias);
    }
  };
  (with_kind.template operator()<Kinds>(), ...);
  return r;
}

/// With every mask that the kernels have.
template <class... Kinds>
void check(AttentionCase c, BackwardKernel kernel) {
  for (const ops::AttentionMask mask : every_mask) {
    if (kernel != BackwardKernel::split && mask.before != ops::AttentionMask::unlimited) continue;
    c.mask = mask;
    CAPTURE(static_cast<int>(kernel), mask.before, mask.after);
    EmulatedDevice device;
    const AttentionResults r = emulate<Kinds...>(device, c, kernel);
    check_results(c, r);
    CHECK(device.conflicts == 0);
    for (const std::string& complaint : std::set<std::string>(device.complaints().begin(), device.complaints().end())) {
      FAIL_CHECK(complaint);
    }
  }
}

/// Two runs have equal bits, and a row has those of any selection of rows, elsewhere in its tile.
template <class... Kinds>
void check_bits_of_rows(const OperandKind& kind, ops::AttentionMask mask) {
  const std::vector<int> lengths{200, 41};
  AttentionCase all(kind, every_position(lengths), lengths, 1, 64, 0.1f);
  all.mask = mask;
  EmulatedDevice device;
  const AttentionResults first = emulate<Kinds...>(device, all), second = emulate<Kinds...>(device, all);
  CHECK(first.out.same_bits(second.out));
  CHECK(first.d_q.same_bits(second.d_q));
  CHECK(first.d_kv.same_bits(second.d_kv));

  AttentionCase some(kind, {{7, 130, 199}, {40}}, lengths, 1, 64, 0.1f);
  some.mask = mask;
  const int from[4] = {7, 130, 199, 240};
  for (int i = 0; i < 4; ++i) {
    for (std::int64_t j = 0; j < 64; ++j) {
      some.q.set(i, j, all.q(from[i], j));
      some.d_out.set(i, j, all.d_out(from[i], j));
    }
  }
  const AttentionResults few = emulate<Kinds...>(device, some);
  const auto row_bytes = static_cast<std::size_t>(64 * core::bytes_of(all.type));
  for (int i = 0; i < 4; ++i) {
    CHECK(std::memcmp(few.out.host().row(i), first.out.host().row(from[i]), row_bytes) == 0);
    CHECK(std::memcmp(few.d_q.host().row(i), first.d_q.host().row(from[i]), row_bytes) == 0);
    CHECK(few.lse(0, i) == first.lse(0, from[i]));
  }
}

}  // namespace bert_hpc::test
