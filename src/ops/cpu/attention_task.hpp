// One task of the CPU's fused attention: a sequence and a head. isa/attention_kernels.cpp is compiled once per
// instruction set; only plain data crosses this interface, so that no inline function of a shared header is compiled
// for an instruction set that the processor may lack.
#pragma once

#include <cstdint>

namespace bert_hpc::ops::cpu {

/// Rows of one head: head_dim columns, `stride` elements from row to row.
struct HeadView {
  const float* data;
  std::int64_t stride;
};
/// The same rows in bf16, as words of two elements. Null if they are not bf16 or rows are not aligned to words.
struct HeadPairs {
  const float* data = nullptr;  ///< words of two bf16 elements, typed as float
  std::int64_t stride = 0;      ///< words
};
struct HeadViewOut {
  float* data;
  std::int64_t stride;
};

/// Floats that may be read and written on both sides of a row of distances.
inline constexpr std::int64_t distance_margin = 16;

/// What all kernels know of a sequence and a head.
struct AttentionHead {
  std::int64_t queries, keys, head_dim;  ///< rows of q, rows of k and v, columns of a head
  std::int64_t real_keys;                ///< the first of the keys; padding after them has weight 0
  bool masked;                           ///< a query attends to some of the keys (ops::AttentionMask), else to all
  std::int32_t before, after;            ///< the mask's limits
  float scale;                           ///< 1 / √head_dim
  // Dropout: threshold 0 disables it; counter words and key as in ops/attention_dropout.hpp.
  std::uint32_t threshold;
  float drop_scale;
  std::uint32_t c2, c3, key0, key1;
  std::uint32_t first_row;  ///< head · 2^20
  /// Position bias times √head_dim: bias[d] for distances d = key's position - query's in (-keys, keys), with
  /// distance_margin floats more on both sides; null: none.
  const float* bias;
  const std::int32_t* position;  ///< (queries): position of each query in its sequence; null if nothing depends on it
  float* log_sum_exp;            ///< (queries)
  float* scratch;                ///< scratch_floats() elements, aligned to 64 bytes
};

struct AttentionTask : AttentionHead {
  HeadView q, k, v;
  HeadPairs q_pairs, k_pairs, v_pairs;  ///< if set, forward does not read q and k, and backward does not read v
  HeadViewOut out;
};

struct AttentionGradientTask {
  AttentionTask forward;  ///< out and log_sum_exp are the results of forward
  HeadView d_out;
  HeadPairs d_out_pairs;  ///< set if v_pairs is set
  HeadViewOut d_q, d_k, d_v;
  float* d_bias;  ///< Σ gradients of scores / √head_dim is added, by distance as `bias`; null: not wanted
};

/// The kernels of one instruction set.
struct AttentionKernels {
  const char* instruction_set;
  bool multiplies_pairs;  ///< has gemms of bf16 pairs
  void (*forward)(const AttentionTask& task);
  void (*backward)(const AttentionGradientTask& task);
  /// Scratch of one task in floats, for both directions and up to `keys` keys and queries.
  std::int64_t (*scratch_floats)(std::int64_t keys, std::int64_t head_dim);
};

/// Rows of one head in bf16, as stored: head_dim columns, `stride` elements from row to row.
struct HeadHalves {
  const std::uint16_t* data;
  std::int64_t stride;
};
struct HeadHalvesOut {
  std::uint16_t* data;
  std::int64_t stride;
};

/// A task whose operands and results are bf16 in place.
struct HalvesAttentionTask : AttentionHead {
  HeadHalves q, k, v;
  HeadHalvesOut out;
};

struct HalvesAttentionGradientTask {
  HalvesAttentionTask forward;  ///< out and log_sum_exp are the results of forward
  HeadHalves d_out;
  HeadHalvesOut d_q, d_k, d_v;
  float* d_bias;  ///< as AttentionGradientTask's
};

struct HalvesAttentionKernels {
  const char* instruction_set;
  void (*forward)(const HalvesAttentionTask& task);
  void (*backward)(const HalvesAttentionGradientTask& task);
  std::int64_t (*scratch_floats)(std::int64_t keys, std::int64_t head_dim);  ///< as AttentionKernels'
};

// One function per compilation of isa/attention_kernels.cpp.
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
namespace x86_64_amx {
HalvesAttentionKernels attention_kernels();  // amx/amx_attention.cpp
}

}  // namespace bert_hpc::ops::cpu
