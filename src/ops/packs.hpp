// How the threads of a GPU share a matrix of activations. A thread reads and writes 8-wide packs of columns: 16 bytes
// in the 16-bit types, and the columns that one block of dropout bits decides. The 32 threads of a warp share a row,
// keep it in registers and reduce by exchanging partial sums. For a sum over rows, the threads of a strip of columns
// each take every strip_rows-th row.
//
// Bodies are written for any of these. On a GPU each thread does its part. On the host, WarpInTurn and serial_strip()
// emulate all threads serially, with the same additions in the same order, so that tests without a GPU compute the
// results of a GPU.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/device.hpp"

namespace bert_hpc::ops::packs {

inline constexpr int width = 8;  // columns of a pack
inline constexpr int warp_lanes = 32;

constexpr std::int64_t count_of(std::int64_t columns) {
  return (columns + width - 1) / width;
}

/// Number of columns of pack `pack`: fewer than eight in the last pack of a row.
BERT_HPC_DEVICE int columns_of(std::int64_t pack, std::int64_t columns) {
  const std::int64_t left = columns - pack * width;
  return static_cast<int>(left < width ? left : width);
}

/// 16 bytes, moved by one instruction.
struct alignas(16) Chunk {
  std::uint32_t words[4];
};

template <class T>
BERT_HPC_DEVICE bool in_chunks(const T* address, int count) {
  return count == width && reinterpret_cast<std::uintptr_t>(address) % sizeof(Chunk) == 0;
}

/// to[0 … count) = from[0 … count); the rest of `to` becomes 0.
template <class T>
BERT_HPC_DEVICE void load(const T* from, int count, float (&to)[width]) {
  if (in_chunks(from, count)) {
    constexpr int chunks = static_cast<int>(width * sizeof(T) / sizeof(Chunk));
    T part[width];
#if defined(__CUDA_ARCH__)
    Chunk raw[chunks];
    for (int c = 0; c < chunks; ++c) raw[c] = reinterpret_cast<const Chunk*>(from)[c];
    std::memcpy(part, raw, sizeof part);
#else
    std::memcpy(part, from, chunks * sizeof(Chunk));
#endif
    for (int j = 0; j < width; ++j) to[j] = part[j];
  } else {
    for (int j = 0; j < width; ++j) to[j] = j < count ? static_cast<float>(from[j]) : 0.0f;
  }
}

/// to[0 … count) = from[0 … count); `from` receives the values as stored.
template <class T>
BERT_HPC_DEVICE void store(float (&from)[width], int count, T* to) {
  T part[width];
  for (int j = 0; j < width; ++j) {
    part[j] = T(from[j]);
    from[j] = part[j];
  }
  if (in_chunks(to, count)) {
    constexpr int chunks = static_cast<int>(width * sizeof(T) / sizeof(Chunk));
#if defined(__CUDA_ARCH__)
    Chunk raw[chunks];
    std::memcpy(raw, part, sizeof part);
    for (int c = 0; c < chunks; ++c) reinterpret_cast<Chunk*>(to)[c] = raw[c];
#else
    std::memcpy(to, part, chunks * sizeof(Chunk));
#endif
  } else {
    for (int j = 0; j < width; ++j) {
      if (j < count) to[j] = part[j];
    }
  }
}

/// The largest of numbered values, the first among equals, independent of the order of add(). NaN is smaller than any
/// number.
struct Largest {
  float value;
  int index;

  BERT_HPC_DEVICE void add(float other, int place) {
    if (!(other > value) && !(other == value && place < index)) return;
    value = other;
    index = place;
  }
};

/// The packs of a matrix that one of `threads` threads takes: every `threads`-th from its own number on. Divides once,
/// not for each pack.
struct PackWalk {
  std::int64_t row, pack, row_step, pack_step, packs_of_row;

  BERT_HPC_DEVICE PackWalk(std::int64_t thread, std::int64_t threads, std::int64_t packs_a_row)
      : row(thread / packs_a_row),
        pack(thread % packs_a_row),
        row_step(threads / packs_a_row),
        pack_step(threads % packs_a_row),
        packs_of_row(packs_a_row) {}

  BERT_HPC_DEVICE void advance() {
    row += row_step;
    pack += pack_step;
    if (pack < packs_of_row) return;
    pack -= packs_of_row;
    ++row;
  }
};

/// One lane of a warp that shares a row of up to 256·slots columns: pack o belongs to lane o mod 32, which keeps it in
/// slot o / 32 of arrays of `held` packs.
template <int slots>
struct Warp {
  static constexpr int held = slots;
  static constexpr std::int64_t max_columns = std::int64_t{slots} * warp_lanes * width;
  int lane;

  BERT_HPC_DEVICE bool leads() const { return lane == 0; }

  /// body(slot, pack) for this lane's packs.
  template <class Body>
  BERT_HPC_DEVICE void each(std::int64_t pack_count, const Body& body) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int s = 0; s < slots; ++s) {
      const std::int64_t o = s * warp_lanes + lane;
      if (o < pack_count) body(s, o);
    }
  }

  /// Σ term(slot, pack) over the packs of all lanes; every lane gets the sum.
  template <class Term>
  BERT_HPC_DEVICE float sum(std::int64_t pack_count, const Term& term) const {
    float total = 0.0f;
    each(pack_count, [&](int slot, std::int64_t pack) { total += term(slot, pack); });
#if defined(__CUDA_ARCH__)
    for (int apart = warp_lanes / 2; apart > 0; apart /= 2) total += __shfl_xor_sync(0xFFFFFFFFu, total, apart);
#endif
    return total;
  }
};

/// Emulates all lanes of a warp serially.
template <int slots>
struct WarpInTurn {
  static constexpr int held = slots * warp_lanes;

  bool leads() const { return true; }

  template <class Body>
  void each(std::int64_t pack_count, const Body& body) const {
    for (std::int64_t o = 0; o < pack_count; ++o) body(static_cast<int>(o), o);
  }

  template <class Term>
  float sum(std::int64_t pack_count, const Term& term) const {
    float part[warp_lanes] = {};
    for (std::int64_t o = 0; o < pack_count; ++o) part[o % warp_lanes] += term(static_cast<int>(o), o);
    for (int apart = warp_lanes / 2; apart > 0; apart /= 2) {
      float next[warp_lanes];
      for (int l = 0; l < warp_lanes; ++l) next[l] = part[l] + part[l ^ apart];
      std::memcpy(part, next, sizeof part);
    }
    return part[0];
  }
};

// A strip is `strip_packs` neighbouring packs (two, so that 16-bit rows are read in whole sectors of 32 bytes). Each
// of its threads takes every strip_rows-th row of one pack; the threads of 16 rows form a warp.
inline constexpr int strip_packs = 2, strip_rows = 256, strip_threads = strip_packs * strip_rows;
inline constexpr int strip_warps = strip_threads / warp_lanes, rows_of_warp = warp_lanes / strip_packs;

/// sums[k·8 + j] of one thread: term(row, column, columns, sums) adds the contribution of a row's pack.
template <class Term, int size>
BERT_HPC_DEVICE void strip_part(int first_row, std::int64_t rows, std::int64_t pack, std::int64_t columns,
                                const Term& term, float (&sums)[size]) {
  for (int i = 0; i < size; ++i) sums[i] = 0.0f;
  const int here = columns_of(pack, columns);
#if defined(__CUDA_ARCH__)
#pragma unroll 4
#endif
  for (std::int64_t row = first_row; row < rows; row += strip_rows) term(row, pack * width, here, sums);
}

/// Serial emulation of a GPU's strips: finish(column, kind, total) for each of `kinds` sums of every column.
template <int kinds, class Term, class Finish>
void serial_strip(std::int64_t rows, std::int64_t columns, const Term& term, const Finish& finish) {
  constexpr int size = kinds * width;
  std::vector<float> parts(strip_rows * size), next(parts.size());
  for (std::int64_t pack = 0; pack < count_of(columns); ++pack) {
    for (int r = 0; r < strip_rows; ++r) {
      float sums[size];
      strip_part(r, rows, pack, columns, term, sums);
      for (int i = 0; i < size; ++i) parts[static_cast<std::size_t>(r * size + i)] = sums[i];
    }
    for (int apart = rows_of_warp / 2; apart > 0; apart /= 2) {  // in each warp
      for (int r = 0; r < strip_rows; ++r) {
        for (int i = 0; i < size; ++i) {
          next[static_cast<std::size_t>(r * size + i)] =
              parts[static_cast<std::size_t>(r * size + i)] + parts[static_cast<std::size_t>((r ^ apart) * size + i)];
        }
      }
      parts.swap(next);
    }
    for (int i = 0; i < size; ++i) {
      float total = 0.0f;
      for (int w = 0; w < strip_warps; ++w) total += parts[static_cast<std::size_t>(w * rows_of_warp * size + i)];
      if (i % width < columns_of(pack, columns)) finish(pack * width + i % width, i / width, total);
    }
  }
}

}  // namespace bert_hpc::ops::packs
