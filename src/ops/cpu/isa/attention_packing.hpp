// Operands of attention's gemms, packed into panels. No function of a shared header may be called here (see
// attention_task.hpp).
#pragma once

#include <cstdint>

#include "../attention_task.hpp"
#include "attention_product.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t round_up(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

typedef float Eight __attribute__((vector_size(32)));
typedef float UnalignedEight __attribute__((vector_size(32), aligned(4), may_alias));

/// Selects elements of a and b by index, 0 … 15. (__builtin_shufflevector requires GCC 12.)
template <int... i>
inline Eight shuffled(Eight a, Eight b) {
  typedef int Indices __attribute__((vector_size(32)));
  return __builtin_shuffle(a, b, Indices{i...});
}

/// to[c][r] = from[r][c] for an 8 × 8 block; rows from `rows` on count as zero.
inline void transpose_8(const float* from, std::int64_t from_stride, std::int64_t rows, float* to) {
  Eight a[8], b[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i)
    a[i] = i < rows ? Eight(*reinterpret_cast<const UnalignedEight*>(from + i * from_stride)) : Eight{};
#pragma GCC unroll 4
  for (int i = 0; i < 8; i += 2) {
    b[i] = shuffled<0, 8, 1, 9, 4, 12, 5, 13>(a[i], a[i + 1]);
    b[i + 1] = shuffled<2, 10, 3, 11, 6, 14, 7, 15>(a[i], a[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 8; i += 4) {
    a[i] = shuffled<0, 1, 8, 9, 4, 5, 12, 13>(b[i], b[i + 2]);
    a[i + 1] = shuffled<2, 3, 10, 11, 6, 7, 14, 15>(b[i], b[i + 2]);
    a[i + 2] = shuffled<0, 1, 8, 9, 4, 5, 12, 13>(b[i + 1], b[i + 3]);
    a[i + 3] = shuffled<2, 3, 10, 11, 6, 7, 14, 15>(b[i + 1], b[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    *reinterpret_cast<UnalignedEight*>(to + i * panel) = shuffled<0, 1, 2, 3, 8, 9, 10, 11>(a[i], a[i + 4]);
    *reinterpret_cast<UnalignedEight*>(to + (i + 4) * panel) = shuffled<4, 5, 6, 7, 12, 13, 14, 15>(a[i], a[i + 4]);
  }
}

/// Panels of rows, transposed: to[p][c][r] = from[p · panel + r][c]; rows past the end count as zero.
[[maybe_unused]] void pack_transposed(HeadView from, std::int64_t rows, std::int64_t columns, float* to) {
  const std::int64_t whole = columns / 8 * 8;
  for (std::int64_t first = 0; first < rows; first += panel, to += panel * columns) {
    for (std::int64_t r = first; r < first + panel && r < round_up(rows, lanes); r += 8) {
      const float* in = from.data + r * from.stride;
      float* out = to + r - first;
      const std::int64_t exist = rows - r < 8 ? (rows > r ? rows - r : 0) : 8;
      for (std::int64_t c = 0; c < whole; c += 8) transpose_8(in + c, from.stride, exist, out + c * panel);
      for (std::int64_t c = whole; c < columns; ++c) {
        for (std::int64_t i = 0; i < 8; ++i) out[c * panel + i] = i < exist ? in[i * from.stride + c] : 0.0f;
      }
    }
  }
}

/// C (rows, columns) = A·Bᵀ over a head: A's rows from `first` on; B is packed by pack_heads() from rows of the same
/// type. `needed`: Product::needed_columns.
[[maybe_unused]] void multiply_heads(HeadView a, [[maybe_unused]] HeadPairs a_pairs, std::int64_t first,
                                     std::int64_t rows, std::int64_t columns, std::int64_t head_dim, const float* b,
                                     float* c, std::int64_t c_row, const IndexRange* needed) {
#if defined(BERT_HPC_PAIR_KERNELS)
  if (a_pairs.data != nullptr) {
    const std::int64_t words = head_dim / 2;
    multiply<Into::replace, PairWords>({rows, columns, words, a_pairs.data + first * a_pairs.stride, a_pairs.stride, 1,
                                        b, panel, panel * words, c, c_row, nullptr, needed});
    return;
  }
#endif
  multiply<Into::replace>({rows, columns, head_dim, a.data + first * a.stride, a.stride, 1, b, panel, panel * head_dim,
                           c, c_row, nullptr, needed});
}

[[maybe_unused]] void pack_heads(HeadView from, HeadPairs pairs, std::int64_t rows, std::int64_t head_dim, float* to) {
  if (pairs.data != nullptr) {
    pack_transposed({pairs.data, pairs.stride}, rows, head_dim / 2, to);
  } else {
    pack_transposed(from, rows, head_dim, to);
  }
}

/// The right operand of a gemm: rows in place, or packed into panels.
struct Panels {
  const float* data;
  std::int64_t row, next_panel;
};

[[maybe_unused]] Panels panels_of(HeadView from, std::int64_t rows, std::int64_t columns, bool pack, float* to) {
  if (!pack) return {from.data, from.stride, panel};
  for (std::int64_t first = 0; first < columns; first += panel) {
    float* out = to + first / panel * rows * panel;
    const std::int64_t width = columns - first < panel ? columns - first : panel;
    if (width == panel) {
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* in = from.data + r * from.stride + first;
        store(out + r * panel, load(in));
        store(out + r * panel + lanes, load(in + lanes));
      }
    } else {
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* in = from.data + r * from.stride + first;
        for (std::int64_t c = 0; c < panel; ++c) out[r * panel + c] = c < width ? in[c] : 0.0f;
      }
    }
  }
  return {to, panel, rows * panel};
}

}  // namespace
}  // namespace bert_hpc::ops::cpu
