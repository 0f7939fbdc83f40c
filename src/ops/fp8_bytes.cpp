// 8-bit operands for FP8 gemms. Tensor cores need the inner dimension of both operands contiguous, so operands in the
// other order are copied and transposed, in tiles of 128 rows and 64 columns. A thread rounds four rows of eight
// columns and transposes their bytes in registers; shared memory collects 16 rows of a column, which a thread writes at
// once. A tile reads 128 contiguous bytes of each row of 16-bit numbers and writes 128 of each column.
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

constexpr int word_bytes = 4, chunk_bytes = 16, chunk_words = chunk_bytes / word_bytes;
constexpr int tile_rows = 128, tile_columns = 64;
constexpr int packs_across = tile_columns / packs::width, chunks_down = tile_rows / chunk_bytes;
constexpr int patches_of_tile = tile_rows / word_bytes * packs_across;  // of four rows and eight columns
constexpr int chunks_of_tile = tile_columns * chunks_down;

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

/// Sixteen rows of a column.
struct alignas(chunk_bytes) Chunk {
  std::uint32_t words[chunk_words];
};

/// Operands of a transposition: x, turned (columns, rows) = float8(x·s)ᵀ, and plain = float8(x·s) unless it has no
/// data. Rows of x past the end count as zeros. A tile's bytes lie in `memory`, transposed.
template <Float8 format, class T>
struct Turning {
  using Fetched = packs::Stored<T>[word_bytes];

  Tensor<const T> x;
  Tensor<std::uint8_t> plain, turned;

  KOKKOS_INLINE_FUNCTION std::int64_t tiles_across() const { return (x.columns + tile_columns - 1) / tile_columns; }
  std::int64_t tiles() const { return tiles_across() * kernel::divide_up(turned.columns, tile_rows); }
  KOKKOS_INLINE_FUNCTION std::int64_t first_row(std::int64_t tile) const { return tile / tiles_across() * tile_rows; }
  KOKKOS_INLINE_FUNCTION std::int64_t first_column(std::int64_t tile) const {
    return tile % tiles_across() * tile_columns;
  }

  /// Chunk `down` of a column of the tile. Swizzled, so that neither the threads of a warp that write words of one row
  /// nor those that read chunks of one column meet in a bank.
  KOKKOS_INLINE_FUNCTION static Chunk& chunk(Chunk* memory, int column, int down) {
    return memory[column * chunks_down + (down ^ column / packs::width % chunks_down)];
  }

  /// Patch `i` of a tile: a pack of each of four rows.
  KOKKOS_INLINE_FUNCTION void fetch(std::int64_t tile, int i, Fetched& fetched) const {
    const std::int64_t row = first_row(tile) + i / packs_across * word_bytes;
    const std::int64_t column = first_column(tile) + i % packs_across * packs::width;
    for (int r = 0; r < word_bytes; ++r) {
      if (row + r < x.rows && column < x.columns) {
        fetched[r] = packs::fetch(x.row(row + r) + column, packs::columns_of(column / packs::width, x.columns));
      } else {
        fetched[r] = {};
      }
    }
  }

  /// Rounds and transposes patch `i`, as fetched. Returns its largest magnitude.
  KOKKOS_INLINE_FUNCTION std::uint32_t round(std::int64_t tile, int i, const Fetched& fetched, float s,
                                             Chunk* memory) const {
    const int down = i / packs_across, across = i % packs_across;
    const std::int64_t row = first_row(tile) + down * word_bytes, column = first_column(tile) + across * packs::width;
    std::uint32_t words[word_bytes][2], largest = 0;
    for (int r = 0; r < word_bytes; ++r) {
      float value[packs::width];
      packs::widen(fetched[r], value);
      pack_bytes<format>(value, s, words[r]);
      const std::uint32_t found = largest_magnitude(value);
      largest = largest > found ? largest : found;
      if (plain.data != nullptr && row + r < x.rows && column < x.columns) {
        store(words[r], packs::columns_of(column / packs::width, x.columns), plain.row(row + r) + column);
      }
    }
    for (int half = 0; half < 2; ++half) {
      // Bytes 0 and 1, and bytes 2 and 3, of two rows.
      const std::uint32_t upper[] = {bytes_of(words[0][half], words[1][half], 0x5140u),
                                     bytes_of(words[0][half], words[1][half], 0x7362u)};
      const std::uint32_t lower[] = {bytes_of(words[2][half], words[3][half], 0x5140u),
                                     bytes_of(words[2][half], words[3][half], 0x7362u)};
      for (int j = 0; j < word_bytes; ++j) {
        chunk(memory, across * packs::width + half * word_bytes + j, down / chunk_words).words[down % chunk_words] =
            bytes_of(upper[j / 2], lower[j / 2], j % 2 == 0 ? 0x5410u : 0x7632u);
      }
    }
    return largest;
  }

  /// Writes chunk `i`, once all patches are rounded.
  KOKKOS_INLINE_FUNCTION void write(std::int64_t tile, int i, Chunk* memory) const {
    const int across = i / chunks_down, down = i % chunks_down;
    const std::int64_t row = first_row(tile) + down * chunk_bytes, column = first_column(tile) + across;
    if (row >= turned.columns || column >= x.columns) return;
    *reinterpret_cast<Chunk*>(turned.row(column) + row) = chunk(memory, across, down);
  }
};

#if BERT_HPC_WARPS
template <class At>
__global__ void __launch_bounds__(patches_of_tile)
    turned_tiles(const At at, const float* scale, std::uint32_t* largest) {
  kernel::wait_for_earlier_kernels();
  __shared__ Chunk memory[chunks_of_tile];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t tile = blockIdx.x;
  typename At::Fetched fetched;
  at.fetch(tile, thread, fetched);
  const std::uint32_t mine = at.round(tile, thread, fetched, *scale, memory);
  __syncthreads();
  for (int i = thread; i < chunks_of_tile; i += patches_of_tile) at.write(tile, i, memory);
  kernel::note_maximum<patches_of_tile>(mine, largest);
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
                 {.blocks = static_cast<unsigned>(at.tiles()), .threads = patches_of_tile}, at, s, noted);
#else
  kernel::for_items(
      label, at.tiles(), KOKKOS_LAMBDA(std::int64_t tile) {
        Chunk memory[chunks_of_tile];
        std::uint32_t largest = 0;
        for (int i = 0; i < patches_of_tile; ++i) {
          typename Turning<format, T>::Fetched fetched;
          at.fetch(tile, i, fetched);
          const std::uint32_t found = at.round(tile, i, fetched, *s, memory);
          largest = found > largest ? found : largest;
        }
        for (int i = 0; i < chunks_of_tile; ++i) at.write(tile, i, memory);
        if (noted != nullptr) note(noted, largest);
      });
#endif
}

// y = float8(x·s)
template <Float8 format, class T>
void round_in(Tensor<const T> x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_to_bytes";
#if BERT_HPC_WARPS
  kernel::for_noted_packs(
      label, x, noted,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t begin, int count, const float(&value)[packs::width]) {
        std::uint32_t words[2];
        pack_bytes<format>(value, *s, words);
        store(words, count, y.row(row) + begin);
      });
#else
  kernel::for_items(
      label, x.rows, KOKKOS_LAMBDA(std::int64_t row) {
        std::uint32_t largest = 0;
        for (std::int64_t pack = 0; pack < packs::count_of(x.columns); ++pack) {
          const std::int64_t begin = pack * packs::width;
          const int count = packs::columns_of(pack, x.columns);
          float value[packs::width];
          packs::load(x.row(row) + begin, count, value);  // zeros after the last column
          std::uint32_t words[2];
          pack_bytes<format>(value, *s, words);
          store(words, count, y.row(row) + begin);
          const std::uint32_t found = largest_magnitude(value);
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
