// Rotary position embeddings. A work item is a row: it computes the sines and cosines of its position once for all
// heads.
#include "bert_hpc/ops/rotary.hpp"

#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "kernel.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

/// Pairs of a row that one thread has.
constexpr std::int64_t thread_pairs = most_rotated_pairs / (kernel::in_warps ? packs::warp_lanes : 1);

KOKKOS_INLINE_FUNCTION std::int64_t own_pair(std::int64_t pair) {
  return kernel::in_warps ? pair / packs::warp_lanes : pair;
}

template <class T>
void rotate_in(RotaryFrequencies frequencies, float direction, const core::TokenRows& rows, core::Tensor<T> x) {
  const std::int32_t* const position = rows.position;
  kernel::for_rows(
      {"bert_hpc::ops::rotate", kernel::bytes_of<T, T>(x.size())}, x.rows,
      KOKKOS_LAMBDA(const kernel::RowTeam& team, std::int64_t i) {
        float sine[thread_pairs], cosine[thread_pairs];
        const std::int64_t pairs = frequencies.pairs;
        const auto at = static_cast<float>(position[i]);
        team.each(pairs, [&](std::int64_t c) {
          float s, cos;
          sine_cosine(at * frequencies.values[c], s, cos);
          sine[own_pair(c)] = direction * s;
          cosine[own_pair(c)] = cos;
        });
        for (std::int64_t begin = 0; begin < x.columns; begin += 2 * pairs) {
          T* const head = x.row(i) + begin;
          team.each(pairs, [&](std::int64_t c) {
            const auto a = static_cast<float>(head[c]), b = static_cast<float>(head[pairs + c]);
            const float s = sine[own_pair(c)], cos = cosine[own_pair(c)];
            head[c] = a * cos - b * s;
            head[pairs + c] = b * cos + a * s;
          });
        }
      });
}

}  // namespace

RotaryFrequencies RotaryFrequencies::of(double theta, std::int64_t head_dim) {
  core::require(head_dim % 2 == 0 && head_dim <= 2 * most_rotated_pairs, "rotary: heads of this size");
  RotaryFrequencies result;
  result.pairs = head_dim / 2;
  for (std::int64_t c = 0; c < result.pairs; ++c) {
    const float exponent = static_cast<float>(2 * c) / static_cast<float>(head_dim);
    result.values[c] = 1.0f / static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  }
  return result;
}

void rotate(const RotaryFrequencies& frequencies, Rotation rotation, const core::TokenRows& rows, core::Matrix x) {
  core::require(x.rows == rows.count && x.columns % (2 * frequencies.pairs) == 0, "rotary: shapes differ");
  const float direction = rotation == Rotation::forward ? 1.0f : -1.0f;
  core::with_type(x.type, [&]<class T>() { rotate_in<T>(frequencies, direction, rows, x.as<T>()); });
}

}  // namespace bert_hpc::ops
