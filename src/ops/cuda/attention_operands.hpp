// Operand kinds of the tensor cores' attention kernels (attention_tile.hpp): the 16-bit types, and floats multiplied as
// TF32 numbers of 11 significant bits, once (Tf32) or as sums of two of them (SplitFp32; Ootomo and Yokota, 2022).
//
// Error of a product x·y of floats relative to |x·y|:
//   Tf32: both factors are rounded, each with 2⁻¹¹: below 2⁻¹⁰ + 2⁻²¹.
//   SplitFp32: x = hi + lo with |lo| ≤ 2⁻¹¹·|x|; tensor cores take the first 11 bits of lo: an error of 2⁻²³·|x|, or
//   1.5·2⁻²³·|x| within 2⁻¹³ below a power of two. Three products, lo·hi + hi·lo + hi·hi, leave out lo·lo, at most
//   2⁻²²: together below 1.25·2⁻²¹, which is 10 times fp32's own rounding.
// Sums: tensor cores align the addends of a product to the largest one and truncate, at most 2⁻²² of the sum of
// magnitudes each (Fasi, Higham, Mikaitis and Pranesh, 2021). A chain of products has D / 8 of them for scores, or one
// for each 8 keys or queries of a tile; SplitFp32 has three times as many. Sums over tiles are ordinary floats.
#pragma once

#include <type_traits>

#if defined(__CUDACC__)
#define BERT_HPC_WARP_CODE __device__ __forceinline__
#else
#define BERT_HPC_WARP_CODE inline
#endif

namespace bert_hpc::ops::cuda {

struct Tf32 {};
struct SplitFp32 {};

template <class T>
struct StorageOf {
  using Type = T;
};
template <>
struct StorageOf<Tf32> {
  using Type = float;
};
template <>
struct StorageOf<SplitFp32> {
  using Type = float;
};

/// The element type of matrices whose elements are multiplied as T.
template <class T>
using Stored = typename StorageOf<T>::Type;
template <class T>
inline constexpr bool stores_floats = std::is_same_v<Stored<T>, float>;
template <class T>
inline constexpr bool splits_floats = std::is_same_v<T, SplitFp32>;
/// Bytes of a head's D elements.
template <class T, int D>
inline constexpr int row_bytes = D* static_cast<int>(sizeof(Stored<T>));
/// Number of elements in 16 bytes.
template <class T>
inline constexpr int chunk_elements = 16 / static_cast<int>(sizeof(Stored<T>));

/// A lane's words of a fragment, as the tensor cores read them.
template <class Warp, class T, int Words>
struct Operand {
  typename Warp::U32 words[Words], rest[splits_floats<T> ? Words : 1];

  BERT_HPC_WARP_CODE void set(int i, const typename Warp::U32& word) {
    if constexpr (stores_floats<T>) {
      // A number of 11 bits: the nearest (as Veltkamp's; Dekker, 1971), or one within 2⁻¹¹·|x| if |x| is less than
      // 2⁻¹³ below a power of two. cvt.rna.tf32 would be three instructions of half the rate.
      const typename Warp::F32 x = Warp::number(word), rounded = Warp::fma(x, -8192.0f, x * 8193.0f);
      words[i] = Warp::bits_of(rounded);
      if constexpr (splits_floats<T>) rest[i] = Warp::bits_of(x - rounded);
    } else {
      words[i] = word;
    }
  }
};

/// c (16 × 8) += a · b
template <class Warp, class T>
BERT_HPC_WARP_CODE void multiply_add(const Operand<Warp, T, 4>& a, const Operand<Warp, T, 2>& b,
                                     typename Warp::F32 (&c)[4]) {
  if constexpr (stores_floats<T>) {
    if constexpr (splits_floats<T>) {  // the small products first
      Warp::multiply_add_tf32(a.rest, b.words, c);
      Warp::multiply_add_tf32(a.words, b.rest, c);
    }
    Warp::multiply_add_tf32(a.words, b.words, c);
  } else {
    Warp::template multiply_add<T>(a.words, b.words[0], b.words[1], c);
  }
}

}  // namespace bert_hpc::ops::cuda
