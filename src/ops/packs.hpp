// How the threads of a GPU share a matrix of activations. A thread reads and writes 8-wide packs of columns: 16 bytes
// in the 16-bit types, and the columns that one block of dropout bits decides. The threads of a team, a warp or
// several, share a row, keep it in registers and reduce by exchanging partial sums. strips.hpp has sums over rows.
//
// Bodies are written for any team. On a GPU each thread does its part. On the host, TeamInTurn emulates all threads
// serially, with the same additions in the same order, so that tests without a GPU compute the results of a GPU.
#pragma once

#include <cstdint>
#include <cstring>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/device.hpp"
#include "bert_hpc/core/tensor.hpp"

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

/// *to = chunk in a GPU's global memory. Explicit, because the compiler may split an assignment into four stores.
BERT_HPC_DEVICE void put(const Chunk& chunk, Chunk* to) {
#if defined(__CUDA_ARCH__)
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)), "r"(chunk.words[0]),
               "r"(chunk.words[1]), "r"(chunk.words[2]), "r"(chunk.words[3])
               : "memory");
#else
  *to = chunk;
#endif
}

template <class T>
BERT_HPC_DEVICE bool in_chunks(const T* address, int count) {
  return count == width && reinterpret_cast<std::uintptr_t>(address) % sizeof(Chunk) == 0;
}

/// Whether all whole packs of a matrix are in chunks.
template <class T>
BERT_HPC_DEVICE bool in_chunks(const core::Tensor<T>& x) {
  return in_chunks(x.data, width) && (x.rows <= 1 || x.stride * sizeof(T) % sizeof(Chunk) == 0);
}

/// A pack as it is stored.
template <class T>
struct Stored {
  static constexpr int chunks = static_cast<int>(width * sizeof(T) / sizeof(Chunk));
  Chunk chunk[chunks];
};

/// from[0 … count), and zeros. `whole`: the pack is known to be in chunks.
template <bool whole = false, class T>
BERT_HPC_DEVICE Stored<T> fetch(const T* from, int count) {
  Stored<T> pack;
  if (whole || in_chunks(from, count)) {
#if defined(__CUDA_ARCH__)
    for (int c = 0; c < pack.chunks; ++c) pack.chunk[c] = reinterpret_cast<const Chunk*>(from)[c];
#else
    std::memcpy(&pack, from, sizeof pack);
#endif
  } else {
    T part[width];
    for (int j = 0; j < width; ++j) part[j] = j < count ? from[j] : T(0.0f);
    std::memcpy(&pack, part, sizeof pack);
  }
  return pack;
}

template <class T>
BERT_HPC_DEVICE void widen(const Stored<T>& from, float (&to)[width]) {
  T part[width];
  std::memcpy(part, &from, sizeof from);
  for (int j = 0; j < width; ++j) to[j] = part[j];
}

/// Rounds `from` to T; `from` receives the values as stored.
template <class T>
BERT_HPC_DEVICE Stored<T> narrow(float (&from)[width]) {
  Stored<T> pack;
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) == 2) {  // two numbers an instruction
    for (int w = 0; w < width / 2; ++w) {
      std::uint32_t& word = pack.chunk[0].words[w];
      if constexpr (core::data_type_of<T> == core::DataType::bf16) {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(from[2 * w + 1]), "f"(from[2 * w]));
      } else {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(from[2 * w + 1]), "f"(from[2 * w]));
      }
    }
    widen(pack, from);
  } else {
    std::memcpy(&pack, from, sizeof pack);
  }
#else
  T part[width];
  for (int j = 0; j < width; ++j) {
    part[j] = from[j];
    from[j] = part[j];
  }
  std::memcpy(&pack, part, sizeof pack);
#endif
  return pack;
}

/// to[0 … count) = from[0 … count); the rest of `to` becomes 0.
template <bool whole = false, class T>
BERT_HPC_DEVICE void load(const T* from, int count, float (&to)[width]) {
  widen(fetch<whole>(from, count), to);
}

/// to[0 … count) = from[0 … count), in global memory; `from` receives the values as stored.
template <bool whole = false, class T>
BERT_HPC_DEVICE void store(float (&from)[width], int count, T* to) {
  const Stored<T> pack = narrow<T>(from);
  if (whole || in_chunks(to, count)) {
#if defined(__CUDA_ARCH__)
    for (int c = 0; c < pack.chunks; ++c) put(pack.chunk[c], reinterpret_cast<Chunk*>(to) + c);
#else
    std::memcpy(to, &pack, sizeof pack);
#endif
  } else {
    T part[width];
    std::memcpy(part, &pack, sizeof pack);
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

  BERT_HPC_DEVICE void add(float other, int other_index) {
    if (!(other > value) && !(other == value && other_index < index)) return;
    value = other;
    index = other_index;
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
template <int slots_>
struct Warp {
  static constexpr int slots = slots_, held = slots_, lanes = warp_lanes;
  static constexpr bool whole = false;
  static constexpr int exchanged = 1;  // floats of shared memory: unused, but an array needs one
  static constexpr std::int64_t max_columns = std::int64_t{slots} * lanes * width;
  int lane;

  BERT_HPC_DEVICE static Warp of_thread(int thread, float*) { return {thread % lanes}; }
  BERT_HPC_DEVICE bool leads() const { return lane == 0; }

  /// body(slot, pack) for this lane's packs.
  template <class Body>
  BERT_HPC_DEVICE void each(std::int64_t pack_count, const Body& body) const {
#if defined(__CUDA_ARCH__)
#pragma unroll
#endif
    for (int s = 0; s < slots; ++s) {
      const std::int64_t o = s * lanes + lane;
      if (o < pack_count) body(s, o);
    }
  }

  /// totals[i] = Σ of what add(slot, pack, totals) adds for the packs of all lanes; every lane gets the sums.
  template <int count, class Add>
  BERT_HPC_DEVICE void sums(std::int64_t pack_count, float (&totals)[count], const Add& add) const {
    for (float& total : totals) total = 0.0f;
    each(pack_count, [&](int slot, std::int64_t pack) { add(slot, pack, totals); });
#if defined(__CUDA_ARCH__)
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
      for (float& total : totals) total += __shfl_xor_sync(0xFFFFFFFFu, total, distance);
    }
#endif
  }
};

/// One lane of `warps` warps that share a row of exactly 256·warps columns in chunks: each has one pack, so that many
/// rows are under way at once, and nothing is checked. A lane's sums of a warp go through shared memory, in two slots
/// in turn: a lane that writes one has passed the barrier after which the other was read.
template <int warps_>
struct WarpGroup {
  static constexpr int warps = warps_, slots = 1, held = 1, lanes = warps * warp_lanes;
  static constexpr bool whole = true;
  static constexpr int max_sums = 2, exchanged = 2 * warps * max_sums;  // floats of shared memory
  static constexpr std::int64_t columns = std::int64_t{lanes} * width;
  int lane, barrier;  // 1 … 15
  float* exchange;
  mutable int slot = 0;

  /// Thread `thread` of a block of groups, with the block's memory of `exchanged` floats for each.
  BERT_HPC_DEVICE static WarpGroup of_thread(int thread, float* memory) {
    const int group = thread / lanes;
    return {thread % lanes, group + 1, memory + group * exchanged};
  }
  BERT_HPC_DEVICE bool leads() const { return lane == 0; }

  template <class Body>
  BERT_HPC_DEVICE void each(std::int64_t, const Body& body) const {
    body(0, std::int64_t{lane});
  }

  template <int count, class Add>
  BERT_HPC_DEVICE void sums(std::int64_t, float (&totals)[count], const Add& add) const {
    static_assert(count <= max_sums);
    for (float& total : totals) total = 0.0f;
    add(0, std::int64_t{lane}, totals);
#if defined(__CUDA_ARCH__)
    for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
      for (float& total : totals) total += __shfl_xor_sync(0xFFFFFFFFu, total, distance);
    }
    float* const parts = exchange + slot * warps * max_sums;
    if (lane % warp_lanes == 0) {
      for (int i = 0; i < count; ++i) parts[lane / warp_lanes * count + i] = totals[i];
    }
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(lanes) : "memory");
    for (int i = 0; i < count; ++i) {
      totals[i] = parts[i];
      for (int w = 1; w < warps; ++w) totals[i] += parts[w * count + i];
    }
    slot ^= 1;
#endif
  }
};

/// totals = the sum over lanes of `part` as the warps of a row add it: by exchange within a warp, then warp after warp.
template <int lanes, int count>
void add_lanes(float (&part)[lanes][count], float (&totals)[count]) {
  for (int distance = warp_lanes / 2; distance > 0; distance /= 2) {
    float next[lanes][count];
    for (int l = 0; l < lanes; ++l) {
      for (int i = 0; i < count; ++i) next[l][i] = part[l][i] + part[l ^ distance][i];
    }
    std::memcpy(part, next, sizeof part);
  }
  for (int i = 0; i < count; ++i) {
    totals[i] = part[0][i];
    for (int l = warp_lanes; l < lanes; l += warp_lanes) totals[i] += part[l][i];
  }
}

/// Emulates all lanes of a team serially: they hold the packs of `slots_` rounds of `lanes_` lanes.
template <int slots_, int lanes_, bool whole_>
struct TeamInTurn {
  static constexpr int slots = slots_, lanes = lanes_, held = slots * lanes;
  static constexpr bool whole = whole_;

  bool leads() const { return true; }

  template <class Body>
  void each(std::int64_t pack_count, const Body& body) const {
    for (std::int64_t o = 0; o < pack_count; ++o) body(static_cast<int>(o), o);
  }

  template <int count, class Add>
  void sums(std::int64_t pack_count, float (&totals)[count], const Add& add) const {
    float part[lanes][count] = {};
    for (std::int64_t o = 0; o < pack_count; ++o) add(static_cast<int>(o), o, part[o % lanes]);
    add_lanes(part, totals);
  }
};

template <int slots>
using WarpInTurn = TeamInTurn<slots, warp_lanes, false>;
template <int warps>
using WarpGroupInTurn = TeamInTurn<1, warps * warp_lanes, true>;

/// Σ term(slot, pack) over the packs of all lanes of a team; every lane gets the sum.
template <class Team, class Term>
BERT_HPC_DEVICE float sum_of(const Team& team, std::int64_t pack_count, const Term& term) {
  float total[1];
  team.sums(pack_count, total, [&](int slot, std::int64_t pack, float(&part)[1]) { part[0] += term(slot, pack); });
  return total[0];
}

}  // namespace bert_hpc::ops::packs
