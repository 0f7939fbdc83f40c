// How fast layer norms, gradients of biases and GELU's gradient are with other blocks than the product's: the same code
// for a row (layer_norm_row.hpp, strips.hpp) in kernels whose shape is a template parameter, bf16, dropout 0.1.
// Arguments: rows and columns, 768 or 1024 (default 5065 768: a batch of base at SQuAD's lengths).
//
// A line a variant: µs of a launch and GB/s of the bytes that it must move, with operands of several launches in turn
// ("cold", more than the cache holds) and with the same ones ("warm"); in a step some are in cache. "product" marks the
// shape that the program has, "memory" a kernel that only moves as many bytes. The last line begins with "= ".
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/column_sums.hpp"
#include "kernel_variants.hpp"
#include "ops/layer_norm_row.hpp"
#include "ops/norm_sums.hpp"
#include "ops/strips.hpp"

using namespace bert_hpc;
using namespace bert_hpc::ops;
using namespace bert_hpc::bench;
using packs::warp_lanes;
using packs::width;

namespace {

// ---- Layer norms.

/// One lane of a warp that has a row of exactly 256·slots columns for itself.
template <int slots_>
struct WholeWarp {
  static constexpr int slots = slots_, held = slots_, lanes = warp_lanes, exchanged = 1;
  static constexpr bool whole = true;
  int lane;

  __device__ static WholeWarp of_thread(int thread, float*) { return {thread % lanes}; }
  __device__ bool leads() const { return lane == 0; }
  template <class Body>
  __device__ void each(std::int64_t, const Body& body) const {
#pragma unroll
    for (int s = 0; s < slots; ++s) body(s, std::int64_t{s * lanes + lane});
  }
  template <int count, class Add>
  __device__ void sums(std::int64_t packs, float (&totals)[count], const Add& add) const {
    for (float& total : totals) total = 0.0f;
    each(packs, [&](int slot, std::int64_t pack) { add(slot, pack, totals); });
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
      for (float& total : totals) total += __shfl_xor_sync(0xFFFFFFFFu, total, distance);
    }
  }
};

template <class Team, int warps, int blocks>
__global__ void __launch_bounds__(warps* warp_lanes, blocks)
    forward_rows(const packs::NormForward<T> n, const packs::NormParameters p) {
  wait_for_earlier_kernels();
  constexpr int teams = warps * warp_lanes / Team::lanes;
  __shared__ float exchange[teams * Team::exchanged];
  const int team = static_cast<int>(threadIdx.x) / Team::lanes;
  const packs::RowWalk walk{std::int64_t{team} * gridDim.x + blockIdx.x, std::int64_t{gridDim.x} * teams, n.x.rows};
  packs::norm_rows(Team::of_thread(static_cast<int>(threadIdx.x), exchange), walk, n, p);
}

template <class Team, int teams, int blocks>
__global__ void __launch_bounds__(teams* Team::lanes, blocks)
    backward_rows(const packs::NormBackward<T> n, const float* gamma, const core::Tensor<float> parts) {
  wait_for_earlier_kernels();
  constexpr int held = Team::slots * Team::lanes, all = held * width;
  __shared__ float exchange[teams * Team::exchanged];
  __shared__ Chunk memory[teams * 2 * held];
  const int thread = static_cast<int>(threadIdx.x), team = thread / Team::lanes, lane = thread % Team::lanes;
  float sums[packs::norm_sum_kinds][Team::slots][width] = {};
  packs::norm_rows_backward(Team::of_thread(thread, exchange),
                            packs::norm_sum_rows(blockIdx.x, gridDim.x, team, teams, n.z.rows), n, gamma,
                            packs::NormSums<Team::slots>{sums});
  const float* const totals = reinterpret_cast<const float*>(memory);
#pragma unroll
  for (int kind = 0; kind < packs::norm_sum_kinds; ++kind) {
    __syncthreads();
    for (int s = 0; s < Team::slots; ++s) {
      for (int half = 0; half < 2; ++half) {
        std::memcpy(&memory[(team * 2 + half) * held + s * Team::lanes + lane], sums[kind][s] + 4 * half,
                    sizeof(Chunk));
      }
    }
    __syncthreads();
    for (int i = thread; i < all; i += teams * Team::lanes) {
      float total = 0.0f;
      for (int t = 0; t < teams; ++t) total += totals[t * all + i];
      parts(blockIdx.x, kind * n.z.columns + i / 4 % held * width + i / 4 / held * 4 + i % 4) = total;
    }
  }
}

/// The operands of layer norms: `sets` of four matrices, and what all rows share.
struct Norms {
  std::int64_t rows, columns, elements = rows * columns;
  T* memory = take<T>(4 * sets * elements, 0x3C);
  float* vector = take<float>(3 * columns, 0x3C);
  float *mean = take<float>(rows), *rstd = take<float>(rows, 0x3C);
  std::int32_t *sequence = take<std::int32_t>(rows), *position = take<std::int32_t>(rows);
  std::int64_t* sample = take<std::int64_t>(1);
  core::Tensor<float> parts{take<float>(4 * 160 * 3 * columns), 4 * 160, 3 * columns};

  core::Tensor<T> matrix(int set, int which) const { return {memory + (4 * set + which) * elements, rows, columns}; }
  packs::RowSite site() const {
    core::Dropout dropout;
    dropout.probability = 0.1f;
    dropout.key0 = 1;
    dropout.sample = sample;
    core::TokenRows all;
    all.count = rows;
    all.sequence = sequence;
    all.position = position;
    const std::uint32_t threshold = dropout_threshold(dropout.probability);
    return {dropout, all, threshold, dropout_scale(threshold)};
  }

  template <class Team, int warps, int blocks>
  void forward(Group& group, const std::string& name, bool persistent = true) const {
    const packs::NormParameters p{vector, vector + columns, vector + 2 * columns, 1e-12f};
    constexpr int teams = warps * warp_lanes / Team::lanes;
    const std::int64_t most = persistent ? std::int64_t{processors()} * blocks : rows,
                       wanted = (rows + teams - 1) / teams;
    group.add(name, reinterpret_cast<const void*>(forward_rows<Team, warps, blocks>), [=, this](int set) {
      const packs::NormForward<T> n{site(), matrix(set, 0), matrix(set, 1), matrix(set, 2), mean, rstd};
      launch(forward_rows<Team, warps, blocks>, dim3(static_cast<unsigned>(std::min(wanted, most))), warps * warp_lanes,
             1, n, p);
    });
  }
  template <class Team, int teams, int blocks>
  void backward(Group& group, const std::string& name) const {
    group.add(name, reinterpret_cast<const void*>(backward_rows<Team, teams, blocks>), [=, this](int set) {
      const packs::NormBackward<T> n{site(), matrix(set, 0), matrix(set, 1), mean,
                                     rstd,   matrix(set, 2), matrix(set, 3)};
      launch(backward_rows<Team, teams, blocks>, dim3(static_cast<unsigned>(processors() * blocks)),
             teams * Team::lanes, 1, n, vector, parts);
    });
  }
};

template <int warps>
void bench_norms(std::int64_t rows) {
  const std::int64_t columns = 256 * warps;
  const Norms norms{rows, columns};
  const double bytes = 4.0 * static_cast<double>(rows * columns) * sizeof(T);
  using Rows = packs::WarpGroup<warps>;
  using Whole = WholeWarp<warps>;
  {
    Group group("layer norm: forward", bytes);
    add_memory<2, 2>(group, norms.elements, norms.memory, 4 * norms.elements);
    norms.forward<Rows, 12, 2>(group, "12 warps, 2 blocks, product");
    norms.forward<Rows, 12, 3>(group, "12 warps, 3 blocks");
    norms.forward<Rows, 2 * warps, 6>(group, "2 rows a block, 6 blocks");
    norms.forward<Rows, 2 * warps, 5>(group, "2 rows a block, no walk", false);
    norms.forward<Whole, 4, 4>(group, "a warp a row, 4 warps, 4 blocks");
    norms.forward<Whole, 4, 5>(group, "a warp a row, 4 warps, 5 blocks");
  }
  {
    Group group("layer norm: backward", bytes);
    add_memory<2, 2>(group, norms.elements, norms.memory, 4 * norms.elements);
    constexpr int usual = packs::norm_sum_teams<Rows>;
    norms.backward<Rows, usual, 1>(group, std::to_string(usual) + " rows a block, product");
    norms.backward<Rows, usual - 1, 1>(group, std::to_string(usual - 1) + " rows a block");
    norms.backward<Rows, usual - 2, 1>(group, std::to_string(usual - 2) + " rows a block");
    norms.backward<Rows, usual / 2, 2>(group, std::to_string(usual / 2) + " rows a block, 2 blocks");
    norms.backward<Rows, 3, 2>(group, "3 rows a block, 2 blocks");
    norms.backward<Whole, 8, 1>(group, "a warp a row, 8 warps");
  }
}

// ---- Sums over rows.

/// Blocks of `warps` warps take `packs_` neighbouring packs; `parts` of them in a cluster share a strip.
template <class Term, int packs_, int warps, int parts, int blocks>
__global__ void __launch_bounds__(warps* warp_lanes, blocks)
    strips(std::int64_t rows, std::int64_t columns, const Term term, float* result) {
  wait_for_earlier_kernels();
  constexpr int rows_of_warp = warp_lanes / packs_, step = parts * warps * rows_of_warp, all = packs_ * width;
  __shared__ float warp_sums[warps][all], part_sums[all];
  const int i = static_cast<int>(threadIdx.x), lane = i % warp_lanes, warp = i / warp_lanes;
  const std::int64_t column = (std::int64_t{blockIdx.x} * packs_ + lane % packs_) * width;
  float sums[width] = {};
  typename Term::Fetched fetched[Term::rows_ahead];
#pragma unroll 1
  for (std::int64_t row = (static_cast<int>(blockIdx.y) * warps + warp) * rows_of_warp + lane / packs_; row < rows;
       row += Term::rows_ahead * step) {
#pragma unroll
    for (int r = 0; r < Term::rows_ahead; ++r) {
      if (row + r * step < rows) fetched[r] = term.template fetch<true>(row + r * step, column, width);
    }
#pragma unroll
    for (int r = 0; r < Term::rows_ahead; ++r) {
      if (row + r * step < rows) term.template add<true>(fetched[r], row + r * step, column, width, sums);
    }
  }
  for (int k = 0; k < width; ++k) {
    for (int distance = warp_lanes / 2; distance >= packs_; distance /= 2) {
      sums[k] += __shfl_xor_sync(0xFFFFFFFFu, sums[k], distance);
    }
    if (lane < packs_) warp_sums[warp][lane * width + k] = sums[k];
  }
  __syncthreads();
  float total = 0.0f;
  if (i < all) {
    for (int w = 0; w < warps; ++w) total += warp_sums[w][i];
    part_sums[i] = total;
  }
  if constexpr (parts > 1) {
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
    if (blockIdx.y == 0 && i < all) {
      for (unsigned part = 1; part < parts; ++part) {
        const auto here = static_cast<std::uint32_t>(__cvta_generic_to_shared(part_sums + i));
        std::uint32_t there;
        float other;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(part));
        asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(other) : "r"(there) : "memory");
        total += other;
      }
    }
    asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
  }
  if (blockIdx.y == 0 && i < all) result[std::int64_t{blockIdx.x} * all + i] += total;
}

/// A term with so many rows under way.
template <class Term, int rows>
struct Ahead : Term {
  static constexpr int rows_ahead = rows;
};

template <class Term, int packs_, int warps, int parts, int blocks>
void add_strips(Group& group, const std::string& more, std::int64_t rows, std::int64_t columns, float* result,
                const std::function<Term(int)>& term) {
  const std::string name = std::to_string(packs_) + " packs, " + std::to_string(warps) + " warps, " +
                           std::to_string(parts) + " parts, " + std::to_string(Term::rows_ahead) + " ahead" + more;
  const auto strips_of = static_cast<unsigned>(columns / (packs_ * width));
  group.add(name, reinterpret_cast<const void*>(strips<Term, packs_, warps, parts, blocks>), [=](int set) {
    launch(strips<Term, packs_, warps, parts, blocks>, dim3(strips_of, parts), warps * warp_lanes, parts, rows, columns,
           term(set), result);
  });
}

/// The program's launches, with the partial sums of a layer norm, which they add too, and without.
void add_product(Group& group, std::int64_t columns, const std::function<void(int, const ColumnSums&)>& run) {
  const std::int64_t rows = packs::norm_sum_blocks(1 << 20), sums = 3 * columns;
  const core::Tensor<float> parts(take<float>(rows * sums), rows, sums);
  float* const totals = take<float>(sums);
  const ColumnSums partial{parts, {totals, totals + columns, totals + 2 * columns}, 3};
  group.add("the program's", nullptr, [=](int set) { run(set, {}); });
  group.add("the program's, with partial sums", nullptr, [=](int set) { run(set, partial); });
}

void bench_biases(std::int64_t rows, std::int64_t columns) {
  const std::int64_t elements = rows * columns;
  T* const memory = take<T>(sets * elements, 0x3C);
  float* const result = take<float>(columns);
  Group group("gradients of biases, " + std::to_string(columns) + " columns",
              static_cast<double>(elements * sizeof(T)));
  add_memory<1, 0>(group, elements, memory, elements);
  add_product(group, columns / 3, [=](int set, const ColumnSums& partial) {
    const ColumnSums own[] = {{core::Tensor<T>(memory + set * elements, rows, columns), {result}}};
    add_column_sums(own, partial, Write::accumulate);
  });
  const auto variants = [&]<int ahead>(std::integral_constant<int, ahead>) {
    using Term = Ahead<packs::ColumnTerm<T>, ahead>;
    const std::function<Term(int)> term = [=](int set) {
      return Term{{core::Tensor<const T>(memory + set * elements, rows, columns)}};
    };
    add_strips<Term, 8, 8, 8, 4>(group, ahead == 4 ? ", product" : "", rows, columns, result, term);
    add_strips<Term, 4, 8, 8, 4>(group, "", rows, columns, result, term);
    add_strips<Term, 8, 4, 8, 8>(group, "", rows, columns, result, term);
    add_strips<Term, 4, 4, 8, 8>(group, "", rows, columns, result, term);
    add_strips<Term, 8, 16, 4, 2>(group, "", rows, columns, result, term);
    add_strips<Term, 4, 16, 8, 2>(group, "", rows, columns, result, term);
  };
  variants(std::integral_constant<int, 4>());
  variants(std::integral_constant<int, 8>());
}

void bench_gelu(std::int64_t rows, std::int64_t columns) {
  const std::int64_t elements = rows * columns;
  T* const memory = take<T>(3 * sets * elements, 0x3C);
  float* const result = take<float>(columns);
  Group group("GELU: backward", 3.0 * static_cast<double>(elements * sizeof(T)));
  add_memory<2, 1>(group, elements, memory, 3 * elements);
  add_product(group, columns / 4, [=](int set, const ColumnSums& partial) {
    const auto matrix = [&](int which) {
      return core::Tensor<T>(memory + (3 * set + which) * elements, rows, columns);
    };
    gelu_backward(matrix(0), matrix(1), matrix(2), result, Write::accumulate, partial);
  });
  const auto variants = [&]<int ahead>(std::integral_constant<int, ahead>) {
    using Term = Ahead<packs::GeluBackwardTerm<T>, ahead>;
    const std::function<Term(int)> term = [=](int set) {
      const auto matrix = [&](int which) {
        return core::Tensor<T>(memory + (3 * set + which) * elements, rows, columns);
      };
      return Term{{matrix(0), matrix(1), matrix(2)}};
    };
    add_strips<Term, 8, 8, 8, 4>(group, ahead == 2 ? ", product" : "", rows, columns, result, term);
    add_strips<Term, 8, 8, 8, 5>(group, ", 5 blocks", rows, columns, result, term);
    add_strips<Term, 4, 8, 8, 4>(group, "", rows, columns, result, term);
    add_strips<Term, 8, 4, 8, 8>(group, "", rows, columns, result, term);
    add_strips<Term, 4, 4, 8, 10>(group, "", rows, columns, result, term);
  };
  variants(std::integral_constant<int, 1>());
  variants(std::integral_constant<int, 2>());
  variants(std::integral_constant<int, 4>());
}

}  // namespace

int main(int argc, char** argv) {
  const std::int64_t rows = argc > 1 ? std::atoll(argv[1]) : 5065, columns = argc > 2 ? std::atoll(argv[2]) : 768;
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: there is no GPU\n");
    return 77;
  }
  if (columns != 768 && columns != 1024) {
    std::printf("columns are 768 or 1024, not %s\n", argv[2]);
    return 2;
  }
  std::printf("%lld rows of %lld, %d multiprocessors\n", static_cast<long long>(rows), static_cast<long long>(columns),
              processors());
  const core::DeviceRuntime runtime;
  columns == 768 ? bench_norms<3>(rows) : bench_norms<4>(rows);
  bench_biases(rows, 3 * columns);
  bench_gelu(rows, 4 * columns);
  std::printf("= us cold: %s\n", summary.c_str());
}
