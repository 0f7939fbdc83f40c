// One gemm C (m, n) = A (m, k) · B (k, n) on all threads. It is split into steps whose operands are packed into scratch
// and multiplied; each thread computes its own rectangle of C. A B that is already packed (weights kept packed between
// steps) could be added as a storage form that skips the packing.
#pragma once

#include <cstdint>

#include "bert_hpc/core/data_type.hpp"
#include "instruction_set.hpp"
#include "tile_kernels.hpp"

namespace bert_hpc::ops::cpu {

/// The kernels of this instruction set for operands that are read as `compute`.
const TileKernels& kernels_of(InstructionSet set, core::DataType compute);

/// Storage of elements of this type.
Source source_of(core::DataType type);

struct BlockedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  Source a_source = Source::fp32, b_source = Source::fp32;
  Source c_source = Source::fp32;  ///< storage type of c and `second`
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
  void* second = nullptr;  ///< (m, n), used by `end`
  std::int64_t second_stride = 0;
  float* a_sums = nullptr;  ///< (m) or null: row sums of A, initialised like C; only if a_transposed
};

/// Floats of scratch that suffice for full speed on this number of threads, for every gemm of at most these extents.
/// `rounds`: operands or the result have 16 bits.
std::int64_t scratch_floats(const TileKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                            bool a_transposed, bool rounds, std::int64_t threads);

/// Additional floats that each thread needs for a gemm with 16-bit operands or result.
std::int64_t block_floats(const TileKernels& kernels);

/// Scratch aligned to 64 bytes. `size`, in floats, is at least scratch_floats() of one thread. `blocks` has
/// block_floats() for each of `threads`, the largest number that take part, or is null if no gemm rounds.
struct ProductScratch {
  float* data = nullptr;
  std::int64_t size = 0;
  float* blocks = nullptr;
  std::int64_t threads = 0;
};

/// Runs the gemm on the calling thread, with scratch of one thread; m, n, k ≥ 1.
void run_alone(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch);

/// Runs the gemm; m, n, k ≥ 1.
void run(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch);

}  // namespace bert_hpc::ops::cpu
