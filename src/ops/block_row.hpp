// A long row shared by the threads of a block, as in cross entropy over a vocabulary: thread t takes every 512th 8-wide
// pack (packs.hpp). Bodies are written for any team. On a GPU, BlockTeam (kernel_blocks.hpp) is one thread of a block.
// On the host, BlockInTurn emulates all threads serially, with the same operations in the same order, so that tests
// without a GPU compute the results of a GPU.
#pragma once

#include <cmath>
#include <cstdint>

#include "bert_hpc/ops/vector_math.hpp"
#include "packs.hpp"

namespace bert_hpc::ops::block_row {

inline constexpr int threads = 512, warps = threads / packs::warp_lanes;

/// Partial softmax of some numbers x: largest = max x, at least the initial value; total = Σ exp(x − largest).
struct Softmax {
  float largest, total;
};

BERT_HPC_DEVICE Softmax merged(const Softmax& a, const Softmax& b) {
  const float largest = a.largest > b.largest ? a.largest : b.largest;
  return {largest, a.total * fast_exp(a.largest - largest) + b.total * fast_exp(b.largest - largest)};
}

/// Adds value[0 … count).
BERT_HPC_DEVICE void add(Softmax& sum, const float (&value)[packs::width], int count) {
  float largest = sum.largest;
  for (int j = 0; j < packs::width; ++j) {
    if (j < count && value[j] > largest) largest = value[j];
  }
  float total = sum.total * fast_exp(sum.largest - largest);
  for (int j = 0; j < packs::width; ++j) {
    if (j < count) total += fast_exp(value[j] - largest);
  }
  sum = {largest, total};
}

/// Emulates all threads of a block serially.
struct BlockInTurn {
  bool leads() const { return true; }

  /// body(pack) for every 8-wide pack.
  template <class Body>
  void each(std::int64_t pack_count, const Body& body) const {
    for (std::int64_t o = 0; o < pack_count; ++o) body(o);
  }

  /// Each thread begins with `first`; part(sum, pack) adds an 8-wide pack.
  template <class Part>
  Softmax softmax(std::int64_t pack_count, const Softmax& first, const Part& part) const {
    Softmax sums[threads];
    for (Softmax& sum : sums) sum = first;
    for (std::int64_t o = 0; o < pack_count; ++o) part(sums[o % threads], o);
    Softmax all = first;
    for (int w = 0; w < warps; ++w) {
      Softmax* const lanes = sums + w * packs::warp_lanes;
      for (int distance = packs::warp_lanes / 2; distance > 0; distance /= 2) {
        for (int l = 0; l < distance; ++l) lanes[l] = merged(lanes[l], lanes[l + distance]);
      }
      all = w == 0 ? lanes[0] : merged(all, lanes[0]);
    }
    return all;
  }
};

/// loss = log Σ_j exp(x_j − m) + m − x_label with m = max x,  d_x = scale · exp(x − m) / Σ − scale · one_hot
/// Reads x twice and writes d_x once; d_x may be x or null.
template <class Team, class T>
BERT_HPC_DEVICE void cross_entropy(const Team& team, const T* x, std::int64_t columns, std::int32_t label, float scale,
                                   float* loss, T* d_x) {
  const std::int64_t pack_count = packs::count_of(columns);
  const float at_label = x[label];
  const float begin = x[0];
  // No thread returns from here before all threads have read x.
  const Softmax all = team.softmax(pack_count, {begin, 0.0f}, [&](Softmax& sum, std::int64_t pack) {
    float value[packs::width];
    const int count = packs::columns_of(pack, columns);
    packs::load(x + pack * packs::width, count, value);
    add(sum, value, count);
  });
  if (team.leads()) *loss = std::log(all.total) + (all.largest - at_label);
  if (d_x == nullptr) return;
  const float factor = scale / all.total;
  team.each(pack_count, [&](std::int64_t pack) {
    float value[packs::width];
    const std::int64_t first = pack * packs::width;
    const int count = packs::columns_of(pack, columns);
    packs::load(x + first, count, value);
    for (int j = 0; j < packs::width; ++j) {
      value[j] = factor * fast_exp(value[j] - all.largest) - (first + j == label ? scale : 0.0f);
    }
    packs::store(value, count, d_x + first);
  });
}

}  // namespace bert_hpc::ops::block_row
