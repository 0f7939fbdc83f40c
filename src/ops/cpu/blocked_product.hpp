// One product C (m, n) = A (m, k) · B (k, n) on all threads: cut into steps whose operands are packed into scratch and
// multiplied, each thread its own rectangle of C. B that is packed already (weights kept packed between steps) would be
// one more way to be stored, that skips the packing.
#pragma once

#include <cstdint>

#include "tile_kernels.hpp"

namespace bert_hpc::ops::cpu {

struct BlockedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Source a_source = Source::fp32, b_source = Source::fp32;
  Source c_source = Source::fp32;  ///< of c and `second`: as they are stored
  const void* a = nullptr;
  std::int64_t a_stride = 0;
  bool a_transposed = false;  ///< stored (k, m)
  const void* b = nullptr;
  std::int64_t b_stride = 0;
  bool b_transposed = false;  ///< stored (n, k)
  void* c = nullptr;
  std::int64_t c_stride = 0;
  Begin begin = Begin::zero;
  const float* bias = nullptr;  ///< (n), for Begin::bias
  End end = End::nothing;
  void* second = nullptr;  ///< (m, n), as `end` says
  std::int64_t second_stride = 0;
  float* a_sums = nullptr;  ///< (m) or null: row sums of A, begun as C is; only where a_transposed
};

/// Floats of scratch with which any product of at most these extents runs, and runs best on this number of threads;
/// `rounds`: from operands or to a result of 16 bits.
std::int64_t scratch_floats(const TileKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                            bool a_transposed, bool rounds, std::int64_t threads);

/// Floats that a product which rounds needs beside, for each thread.
std::int64_t block_floats(const TileKernels& kernels);

/// Scratch aligned to 64 bytes. `size`, in floats, is at least scratch_floats() of one thread; `blocks` has
/// block_floats() for each of `threads`, the most that take part, or is null where no product rounds.
struct ProductScratch {
  float* data = nullptr;
  std::int64_t size = 0;
  float* blocks = nullptr;
  std::int64_t threads = 0;
};

/// Runs it; m, n, k ≥ 1.
void run(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch);

}  // namespace bert_hpc::ops::cpu
