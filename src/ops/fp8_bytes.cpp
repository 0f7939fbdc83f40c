// 8-bit operands for FP8 gemms. Tensor cores need the inner dimension of both operands contiguous, so operands in the
// other order are copied and transposed, in tiles of 64 rows and 64 columns. The threads of a block first round packs
// of eight columns and keep the bytes in shared memory, and then transpose squares of 4 x 4 bytes in registers. They
// read 128 contiguous bytes of each row and write 64 of each column.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "fp8_note.hpp"
#include "kernel.hpp"
#include "kernel_blocks.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Float8;
using core::Tensor;

constexpr int word_bytes = 4, chunk_bytes = 16;
constexpr int tile_rows = 64, tile_columns = 64, tile_packs = tile_columns / packs::width;
constexpr int packs_of_tile = tile_rows * tile_packs;
constexpr int squares_of_tile = tile_rows / word_bytes * tile_columns / word_bytes;
constexpr int tile_pitch = tile_columns / word_bytes + 1;  // words; odd, so that a column's lie in different banks

/// The bytes of two words as `selector` says: each of its four digits is the number of a byte, those of b from 4 on.
KOKKOS_INLINE_FUNCTION std::uint32_t bytes_of(std::uint32_t a, std::uint32_t b, std::uint32_t selector) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(a, b, selector);
#else
  const std::uint64_t both = a | std::uint64_t{b} << 32;
  std::uint32_t word = 0;
  for (int i = 0; i < word_bytes; ++i) {
    word |= static_cast<std::uint32_t>(both >> (8 * (selector >> (4 * i) & 7u)) & 0xFFu) << (8 * i);
  }
  return word;
#endif
}

/// Packs eight numbers into two words.
template <Float8 format>
KOKKOS_INLINE_FUNCTION void pack_bytes(const float (&value)[packs::width], float s, std::uint32_t (&words)[2]) {
  for (int i = 0; i < 2; ++i) {
    const float* const x = value + word_bytes * i;
    words[i] = core::float8_pair<format>(x[0] * s, x[1] * s) | core::float8_pair<format>(x[2] * s, x[3] * s) << 16;
  }
}

/// Stores the packed numbers to to[0 … count).
KOKKOS_INLINE_FUNCTION void store(const std::uint32_t (&words)[2], int count, std::uint8_t* to) {
  if (count == packs::width && reinterpret_cast<std::uintptr_t>(to) % sizeof words == 0) {
    *reinterpret_cast<std::uint64_t*>(to) = words[0] | std::uint64_t{words[1]} << 32;
    return;
  }
  for (int j = 0; j < packs::width; ++j) {
    if (j < count) to[j] = static_cast<std::uint8_t>(words[j / word_bytes] >> (8 * (j % word_bytes)));
  }
}

/// Operands of a transposition: x, turned (columns, rows) = float8(x·s)ᵀ, and plain = float8(x·s) unless it has no
/// data. Rows of x past the end count as zeros. A tile's words lie in `memory`.
template <Float8 format, class T>
struct Turning {
  Tensor<const T> x;
  Tensor<std::uint8_t> plain, turned;

  KOKKOS_INLINE_FUNCTION std::int64_t tiles_across() const { return (x.columns + tile_columns - 1) / tile_columns; }
  std::int64_t tiles() const { return tiles_across() * kernel::divide_up(turned.columns, tile_rows); }
  KOKKOS_INLINE_FUNCTION std::int64_t first_row(std::int64_t tile) const { return tile / tiles_across() * tile_rows; }
  KOKKOS_INLINE_FUNCTION std::int64_t first_column(std::int64_t tile) const {
    return tile % tiles_across() * tile_columns;
  }

  /// Pack `i` of a tile.
  KOKKOS_INLINE_FUNCTION packs::Stored<T> fetch(std::int64_t tile, int i) const {
    const std::int64_t row = first_row(tile) + i / tile_packs;
    const std::int64_t column = first_column(tile) + i % tile_packs * packs::width;
    if (row >= x.rows || column >= x.columns) return {};
    return packs::fetch(x.row(row) + column, packs::columns_of(column / packs::width, x.columns));
  }

  /// Rounds pack `i`, as fetched. Returns its largest magnitude.
  KOKKOS_INLINE_FUNCTION std::uint32_t round(std::int64_t tile, int i, const packs::Stored<T>& fetched, float s,
                                             std::uint32_t* memory) const {
    float value[packs::width];
    packs::widen(fetched, value);
    std::uint32_t words[2];
    pack_bytes<format>(value, s, words);
    std::uint32_t* const to = memory + i / tile_packs * tile_pitch + i % tile_packs * 2;
    to[0] = words[0];
    to[1] = words[1];
    const std::int64_t row = first_row(tile) + i / tile_packs;
    const std::int64_t column = first_column(tile) + i % tile_packs * packs::width;
    if (plain.data != nullptr && row < x.rows && column < x.columns) {
      store(words, packs::columns_of(column / packs::width, x.columns), plain.row(row) + column);
    }
    return largest_magnitude(value);
  }

  /// Transposes square `i`, once all packs are rounded.
  KOKKOS_INLINE_FUNCTION void turn(std::int64_t tile, int i, const std::uint32_t* memory) const {
    constexpr int squares_down = tile_rows / word_bytes;
    const int down = i % squares_down, across = i / squares_down;
    const std::int64_t row = first_row(tile) + down * word_bytes, column = first_column(tile) + across * word_bytes;
    if (row >= turned.columns) return;
    const std::uint32_t* const word = memory + down * word_bytes * tile_pitch + across;
    // Bytes 0 and 1, and bytes 2 and 3, of two rows.
    const std::uint32_t upper[] = {bytes_of(word[0], word[tile_pitch], 0x5140u),
                                   bytes_of(word[0], word[tile_pitch], 0x7362u)};
    const std::uint32_t lower[] = {bytes_of(word[2 * tile_pitch], word[3 * tile_pitch], 0x5140u),
                                   bytes_of(word[2 * tile_pitch], word[3 * tile_pitch], 0x7362u)};
    for (int j = 0; j < word_bytes; ++j) {
      if (column + j >= x.columns) return;
      *reinterpret_cast<std::uint32_t*>(turned.row(column + j) + row) =
          bytes_of(upper[j / 2], lower[j / 2], j % 2 == 0 ? 0x5410u : 0x7632u);
    }
  }
};

#if BERT_HPC_WARPS
constexpr int tile_threads = 128;

template <class At>
__global__ void __launch_bounds__(tile_threads) turned_tiles(const At at, const float* scale, std::uint32_t* largest) {
  kernel::wait_for_earlier_kernels();
  __shared__ std::uint32_t memory[tile_rows * tile_pitch];
  constexpr int each = packs_of_tile / tile_threads;
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t tile = blockIdx.x;
  decltype(at.fetch(0, 0)) fetched[each];  // all under way at once
  for (int k = 0; k < each; ++k) fetched[k] = at.fetch(tile, k * tile_threads + thread);
  std::uint32_t mine = 0;
  for (int k = 0; k < each; ++k) {
    const std::uint32_t found = at.round(tile, k * tile_threads + thread, fetched[k], *scale, memory);
    mine = mine > found ? mine : found;
  }
  __syncthreads();
  for (int i = thread; i < squares_of_tile; i += tile_threads) at.turn(tile, i, memory);
  kernel::note_maximum<tile_threads>(mine, largest);
}
#endif

template <Float8 format, class T>
void round_turned_in(const Turning<format, T>& at, const Fp8Scale& scale, bool notes) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_turned";
  if (at.tiles() == 0) return;
#if BERT_HPC_WARPS
  kernel::launch(label, turned_tiles<Turning<format, T>>,
                 {.blocks = static_cast<unsigned>(at.tiles()), .threads = tile_threads}, at, s, noted);
#else
  kernel::for_items(
      label, at.tiles(), KOKKOS_LAMBDA(std::int64_t tile) {
        std::uint32_t memory[tile_rows * tile_pitch], largest = 0;
        for (int i = 0; i < packs_of_tile; ++i) {
          const std::uint32_t found = at.round(tile, i, at.fetch(tile, i), *s, memory);
          largest = found > largest ? found : largest;
        }
        for (int i = 0; i < squares_of_tile; ++i) at.turn(tile, i, memory);
        if (noted != nullptr) note(noted, largest);
      });
#endif
}

/// y = float8(x·s) for an 8-wide pack. Returns the largest magnitude of x in the pack.
template <Float8 format, class T>
KOKKOS_INLINE_FUNCTION std::uint32_t round_pack(const Tensor<const T>& x, float s, std::int64_t row, std::int64_t begin,
                                                int count, const Tensor<std::uint8_t>& y) {
  float value[packs::width];
  packs::load(x.row(row) + begin, count, value);  // zeros after the last column
  std::uint32_t words[2];
  pack_bytes<format>(value, s, words);
  store(words, count, y.row(row) + begin);
  return largest_magnitude(value);
}

// y = float8(x·s)
template <Float8 format, class T>
void round_in(Tensor<const T> x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_to_bytes";
#if BERT_HPC_WARPS
  kernel::for_packs_with_maximum(
      label, x.rows, x.columns, noted, KOKKOS_LAMBDA(std::int64_t row, std::int64_t begin, int count) {
        return round_pack<format>(x, *s, row, begin, count, y);
      });
#else
  kernel::for_items(
      label, x.rows, KOKKOS_LAMBDA(std::int64_t row) {
        std::uint32_t largest = 0;
        for (std::int64_t pack = 0; pack < packs::count_of(x.columns); ++pack) {
          const int count = packs::columns_of(pack, x.columns);
          const std::uint32_t found = round_pack<format>(x, *s, row, pack * packs::width, count, y);
          largest = found > largest ? found : largest;
        }
        if (noted != nullptr) note(noted, largest);
      });
#endif
}

}  // namespace

void round_to_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  core::require(x.rows == y.rows && x.columns == y.columns, "FP8 rounding: shapes differ");
  core::with_type(x.type, [&]<class T>() {
    if (scale.format == Float8::e4m3) {
      round_in<Float8::e4m3, T>(x.as<T>(), scale, notes, y);
    } else {
      round_in<Float8::e5m2, T>(x.as<T>(), scale, notes, y);
    }
  });
}

void round_to_fp8_turned(core::ConstMatrix x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y,
                         Tensor<std::uint8_t> plain) {
  core::require(plain.data == nullptr || (plain.rows == x.rows && plain.columns == x.columns),
                "FP8 rounding: shapes differ");
  core::require(x.columns == y.rows && x.rows <= y.columns, "FP8 rounding: shapes are not those of a turned copy");
  core::require(y.columns % chunk_bytes == 0 && y.stride % chunk_bytes == 0 &&
                    reinterpret_cast<std::uintptr_t>(y.data) % chunk_bytes == 0,
                "FP8 rounding: a turned copy's rows are not made of 16 bytes");
  core::with_type(x.type, [&]<class T>() {
    if (scale.format == Float8::e4m3) {
      round_turned_in(Turning<Float8::e4m3, T>{x.as<T>(), plain, y}, scale, notes);
    } else {
      round_turned_in(Turning<Float8::e5m2, T>{x.as<T>(), plain, y}, scale, notes);
    }
  });
}

}  // namespace bert_hpc::ops
