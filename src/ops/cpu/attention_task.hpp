// One unit of the CPU's fused attention: a sequence and a head. The kernels behind it are compiled once per instruction
// set from isa/attention_kernels.cpp; only plain data crosses this border, so that no inline function of a shared
// header is compiled for a processor it may not run on.
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {

/// Rows of one head: head_dim columns, `stride` elements from row to row.
struct HeadRows {
  const float* data;
  std::int64_t stride;
};
/// The same rows stored as bf16, in words of two: null where they are not, or words do not begin at each row.
struct HeadPairs {
  const float* data = nullptr;  ///< pairs under this type's name
  std::int64_t stride = 0;      ///< words
};
struct HeadRowsOut {
  float* data;
  std::int64_t stride;
};

struct AttentionTask {
  std::int64_t queries, keys, head_dim;  ///< rows of q, rows of k and v, columns of a head
  float scale;                           ///< 1 / √head_dim
  // Dropout: threshold 0 switches it off; counter words and key as in ops/dropout.hpp.
  std::uint32_t threshold;
  float drop_scale;
  std::uint32_t c2, c3, key0, key1;
  std::uint32_t first_row;       ///< head · 2^20
  const std::int32_t* position;  ///< (queries): position of each query in its sequence
  HeadRows q, k, v;
  HeadPairs q_pairs, k_pairs, v_pairs;  ///< where given, forward reads no q and k, backward no v
  HeadRowsOut out;
  float* log_sum_exp;  ///< (queries)
  float* scratch;      ///< scratch_floats() of it, aligned to 64 bytes
};

struct AttentionGradientTask {
  AttentionTask forward;  ///< out and log_sum_exp as forward left them
  HeadRows d_out;
  HeadPairs d_out_pairs;  ///< given where v_pairs are
  HeadRowsOut d_q, d_k, d_v;
};

/// The kernels of one instruction set.
struct AttentionKernels {
  const char* instruction_set;
  bool multiplies_pairs;  ///< of bf16
  void (*forward)(const AttentionTask& task);
  void (*backward)(const AttentionGradientTask& task);
  /// Scratch of one task, both directions, for up to `keys` keys and queries.
  std::int64_t (*scratch_floats)(std::int64_t keys, std::int64_t head_dim);
};

// One per compilation of isa/attention_kernels.cpp.
namespace baseline {
AttentionKernels attention_kernels();
}
namespace x86_64_v3 {
AttentionKernels attention_kernels();
}
namespace x86_64_v4 {
AttentionKernels attention_kernels();
}
namespace x86_64_v4_bf16 {
AttentionKernels attention_kernels();
}

}  // namespace bert_hpc::ops::cpu
