// The most multiply-adds in fp32 that x86-64 processors do, for what is said of speeds beside it:
//   OMP_NUM_THREADS=N bench_peak
// Independent chains in registers in each thread, of 512 bits with AVX-512, else of 256: as many as fit beside two
// constants into 32 or 16 registers, and enough for the latency of two units.
#pragma GCC optimize("fp-contract=fast")
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {

constexpr long rounds = 40'000'000;

struct Wide {
  using Vector __attribute__((vector_size(64))) = float;
  static constexpr int chains = 16;
};
struct Narrow {
  using Vector __attribute__((vector_size(32))) = float;
  static constexpr int chains = 12;
};

template <class Type>
[[gnu::always_inline]] inline float run_chains() {
  using Vector = typename Type::Vector;
  constexpr int chains = Type::chains;
  Vector sums[chains];
  for (int c = 0; c < chains; ++c) sums[c] = Vector{} + static_cast<float>(c);
  const Vector factor = Vector{} + 0.999999f, term = Vector{} + 1e-6f;
  for (long r = 0; r < rounds; ++r) {
#pragma GCC unroll 16
    for (int c = 0; c < chains; ++c) sums[c] = sums[c] * factor + term;
  }
  float sum = 0;
  for (const Vector& each : sums) sum += each[0] + each[sizeof(Vector) / sizeof(float) - 1];
  return sum;
}

[[gnu::target("avx512f")]] float run_512() {
  return run_chains<Wide>();
}
[[gnu::target("avx2,fma")]] float run_256() {
  return run_chains<Narrow>();
}

}  // namespace

int main() {
  const bool wide = __builtin_cpu_supports("avx512f");
  const int lanes = wide ? 16 : 8, chains = wide ? Wide::chains : Narrow::chains, threads = omp_get_max_threads();
  double best = 0;
  float seen = 0;  // so that no chain is left out
  for (int round = 0; round < 5; ++round) {
    const auto begin = std::chrono::steady_clock::now();
#pragma omp parallel reduction(+ : seen)
    seen += wide ? run_512() : run_256();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    best = std::max(best, 2.0 * lanes * chains * rounds * threads / seconds.count());
  }
  std::printf("%d threads, %d bits: %.0f GFLOP/s (%g)\n", threads, 32 * lanes, best / 1e9, static_cast<double>(seen));
}
