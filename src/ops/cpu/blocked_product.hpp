// One product C (m, n) = A (m, k) · B (k, n) on all threads: cut into steps whose operands are packed into scratch and
// multiplied, each thread its own rectangle of C. B that is packed already (weights kept packed between steps) would be
// one more way to be stored, that skips the packing.
#pragma once

#include <cstdint>

#include "tile_kernels.hpp"

namespace bert_hpc::ops::cpu {

struct BlockedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  const float* a = nullptr;
  std::int64_t a_stride = 0;
  bool a_transposed = false;  ///< stored (k, m)
  const float* b = nullptr;
  std::int64_t b_stride = 0;
  bool b_transposed = false;  ///< stored (n, k)
  float* c = nullptr;
  std::int64_t c_stride = 0;
  Begin begin = Begin::zero;
  const float* bias = nullptr;  ///< (n), for Begin::bias
  End end = End::nothing;
  float* second = nullptr;  ///< (m, n), as `end` says
  std::int64_t second_stride = 0;
  float* a_sums = nullptr;  ///< (m) or null: row sums of A, begun as C is; only where a_transposed
};

/// Floats of scratch with which any product of at most these extents runs, and runs best on this number of threads.
std::int64_t scratch_floats(const TileKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                            bool a_transposed, std::int64_t threads);

/// Runs it. `scratch` is aligned to 64 bytes; its size, in floats, is at least scratch_floats() of one thread; m, n,
/// k ≥ 1.
void run(const TileKernels& kernels, const BlockedProduct& product, float* scratch, std::int64_t scratch_size);

}  // namespace bert_hpc::ops::cpu
