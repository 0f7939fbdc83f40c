// 8-bit operands for FP8 gemms. Tensor cores need the inner dimension of both operands contiguous, so operands in the
// other order are copied and transposed, in tiles of 128 rows and 64 columns. A thread rounds four rows of eight
// columns and transposes their bytes in registers; shared memory collects 16 rows of a column, which a thread writes at
// once. A tile reads 128 contiguous bytes of each row of 16-bit numbers and writes 128 of each column.
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "bert_hpc/ops/vector_math.hpp"
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
static_assert(tile_rows == ProductOperand::rows_of_sum);
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

// Sources of packs for ProductOperand's functions, with the values that these would have in memory.

template <class T>
struct Gelu : AsStored<T> {
  KOKKOS_INLINE_FUNCTION static void values(const packs::Stored<T>& fetched, float (&value)[packs::width]) {
    packs::widen(fetched, value);
    for (float& v : value) v = gelu_of<T>(v);
    packs::narrow<T>(value);
  }
};

template <class T>
struct GeluGradient {
  struct Fetched {
    packs::Stored<T> x, pre;
  };

  Tensor<const T> x, pre;
  Tensor<float> sums;

  KOKKOS_INLINE_FUNCTION Fetched fetch(std::int64_t row, std::int64_t begin, int count) const {
    return {packs::fetch(x.row(row) + begin, count), packs::fetch(pre.row(row) + begin, count)};
  }
  KOKKOS_INLINE_FUNCTION static void values(const Fetched& fetched, float (&value)[packs::width]) {
    float before[packs::width];
    packs::widen(fetched.x, value);
    packs::widen(fetched.pre, before);
    for (int j = 0; j < packs::width; ++j) value[j] *= gelu_derivative_of<T>(before[j]);
    packs::narrow<T>(value);
  }
};

/// Whether the rows of a source's tiles are summed.
template <class From>
constexpr bool has_sums = requires(From from) {
  from.sums;
};

/// Sums over a tile's rows; each thread adds four rows.
struct TileSums {
  static constexpr int patches_down = tile_rows / word_bytes, warps = patches_of_tile / packs::warp_lanes;
  static constexpr int patches_of_warp = patches_down / warps;

  float of_warp[warps][tile_columns];

  /// Adds up the warps' sums of a column.
  KOKKOS_INLINE_FUNCTION float of_column(int column) const {
    float sum = of_warp[0][column];
    for (int w = 1; w < warps; ++w) sum += of_warp[w][column];
    return sum;
  }
};

/// Operands of a transposition: x, transposed (columns, rows) = float8(x·s)ᵀ, and plain = float8(x·s) unless it has no
/// data. Rows of x past the end count as zeros. A tile's bytes lie in `memory`, transposed.
template <Float8 format, class From>
struct Transposition {
  using Fetched = typename From::Fetched[word_bytes];
  static constexpr bool sums = has_sums<From>;

  From from;
  std::int64_t rows, columns;
  Tensor<std::uint8_t> plain, transposed;

  KOKKOS_INLINE_FUNCTION std::int64_t tiles_across() const { return (columns + tile_columns - 1) / tile_columns; }
  std::int64_t tiles() const { return tiles_across() * kernel::divide_up(transposed.columns, tile_rows); }
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
      if (row + r < rows && column < columns) {
        fetched[r] = from.fetch(row + r, column, packs::columns_of(column / packs::width, columns));
      } else {
        fetched[r] = {};
      }
    }
  }

  /// Rounds and transposes patch `i`, as fetched, and adds its rows to `sum`. Returns its largest magnitude.
  KOKKOS_INLINE_FUNCTION std::uint32_t round(std::int64_t tile, int i, const Fetched& fetched, float s, Chunk* memory,
                                             float (&sum)[packs::width]) const {
    const int down = i / packs_across, across = i % packs_across;
    const std::int64_t row = first_row(tile) + down * word_bytes, column = first_column(tile) + across * packs::width;
    std::uint32_t words[word_bytes][2], largest = 0;
    for (int r = 0; r < word_bytes; ++r) {
      float value[packs::width];
      From::values(fetched[r], value);
      pack_bytes<format>(value, s, words[r]);
      const std::uint32_t found = largest_magnitude(value);
      largest = largest > found ? largest : found;
      if (plain.data != nullptr && row + r < rows && column < columns) {
        store(words[r], packs::columns_of(column / packs::width, columns), plain.row(row + r) + column);
      }
      if constexpr (sums) {
        for (int j = 0; j < packs::width; ++j) sum[j] += value[j];
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
    if (row >= transposed.columns || column >= columns) return;
    *reinterpret_cast<Chunk*>(transposed.row(column) + row) = chunk(memory, across, down);
  }

  /// Writes column `column` of a tile's sums.
  KOKKOS_INLINE_FUNCTION void write_sum(std::int64_t tile, int column, const TileSums& tile_sums) const {
    if (from.sums.data == nullptr || first_column(tile) + column >= columns) return;
    from.sums.row(first_row(tile) / tile_rows)[first_column(tile) + column] = tile_sums.of_column(column);
  }
};

#if BERT_HPC_WARPS
template <class At>
__global__ void __launch_bounds__(patches_of_tile)
    transposed_tiles(const At at, const float* scale, std::uint32_t* largest) {
  kernel::wait_for_earlier_kernels();
  __shared__ Chunk memory[chunks_of_tile];
  const int thread = static_cast<int>(threadIdx.x);
  const std::int64_t tile = blockIdx.x;
  typename At::Fetched fetched;
  at.fetch(tile, thread, fetched);
  float sum[packs::width] = {};
  const std::uint32_t mine = at.round(tile, thread, fetched, *scale, memory, sum);
  if constexpr (At::sums) {
    __shared__ TileSums sums;
    for (int distance = packs_across; distance < packs::warp_lanes; distance *= 2) {
      for (float& x : sum) x += __shfl_xor_sync(0xFFFFFFFFu, x, distance);
    }
    const int lane = thread % packs::warp_lanes;
    if (lane < packs_across) {
      for (int j = 0; j < packs::width; ++j) sums.of_warp[thread / packs::warp_lanes][lane * packs::width + j] = sum[j];
    }
    __syncthreads();
    if (thread < tile_columns) at.write_sum(tile, thread, sums);
  } else {
    __syncthreads();
  }
  for (int i = thread; i < chunks_of_tile; i += patches_of_tile) at.write(tile, i, memory);
  kernel::note_maximum<patches_of_tile>(mine, largest);
}
#else
/// Computes a tile with the additions of a GPU, in its order. Returns its largest magnitude.
template <class At>
std::uint32_t round_tile(const At& at, std::int64_t tile, float scale) {
  Chunk memory[chunks_of_tile];
  std::uint32_t largest = 0;
  float sum[TileSums::patches_down][tile_columns] = {};
  for (int i = 0; i < patches_of_tile; ++i) {
    typename At::Fetched fetched;
    at.fetch(tile, i, fetched);
    float part[packs::width] = {};
    const std::uint32_t found = at.round(tile, i, fetched, scale, memory, part);
    largest = found > largest ? found : largest;
    for (int j = 0; j < packs::width; ++j) sum[i / packs_across][i % packs_across * packs::width + j] = part[j];
  }
  if constexpr (At::sums) {
    TileSums sums;
    static_assert(TileSums::patches_of_warp == 4);
    for (int warp = 0; warp < TileSums::warps; ++warp) {
      const auto& part = reinterpret_cast<const float(&)[4][tile_columns]>(sum[4 * warp]);
      for (int j = 0; j < tile_columns; ++j) {
        sums.of_warp[warp][j] = (part[0][j] + part[1][j]) + (part[2][j] + part[3][j]);
      }
    }
    for (int j = 0; j < tile_columns; ++j) at.write_sum(tile, j, sums);
  }
  for (int i = 0; i < chunks_of_tile; ++i) at.write(tile, i, memory);
  return largest;
}
#endif

template <Float8 format, class From>
void round_transposed_in(const From& from, const core::ConstMatrix& x, const Fp8Scale& scale, bool notes,
                         Tensor<std::uint8_t> plain, Tensor<std::uint8_t> transposed) {
  const Transposition<format, From> at{from, x.rows, x.columns, plain, transposed};
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_transposed";
  if (at.tiles() == 0) return;
#if BERT_HPC_WARPS
  kernel::launch(label, transposed_tiles<Transposition<format, From>>,
                 {.blocks = static_cast<unsigned>(at.tiles()), .threads = patches_of_tile}, at, s, noted);
#else
  kernel::for_items(
      label, at.tiles(), KOKKOS_LAMBDA(std::int64_t tile) {
        const std::uint32_t largest = round_tile(at, tile, *s);
        if (noted != nullptr) note(noted, largest);
      });
#endif
}

// y = float8(x·s)
template <Float8 format, class From>
void round_in(const From& from, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  const float* const s = scale.scale;
  std::uint32_t* const noted = notes ? scale.largest : nullptr;
  constexpr const char* label = "bert_hpc::ops::fp8_round_to_bytes";
#if BERT_HPC_WARPS
  kernel::for_noted_packs(
      label, from, y.rows, y.columns, noted,
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t begin, int count, const float(&value)[packs::width]) {
        std::uint32_t words[2];
        pack_bytes<format>(value, *s, words);
        store(words, count, y.row(row) + begin);
      });
#else
  kernel::for_items(
      label, y.rows, KOKKOS_LAMBDA(std::int64_t row) {
        std::uint32_t largest = 0;
        for (std::int64_t pack = 0; pack < packs::count_of(y.columns); ++pack) {
          const std::int64_t begin = pack * packs::width;
          const int count = packs::columns_of(pack, y.columns);
          float value[packs::width];
          From::values(from.fetch(row, begin, count), value);  // zeros after the last column
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

/// body.operator()<format>(source of packs). Activations of FP8 trainings are in bf16.
template <class Body>
void with_source(const ProductOperand& x, Float8 format, const Body& body) {
  using Form = ProductOperand::Form;
  using T = core::Bf16;
  if (x.form == Form::plain) {
    return core::with_type(x.matrix.type, [&]<class Element>() {
      const AsStored<Element> from{x.matrix.as<Element>()};
      if (format == Float8::e4m3) return body.template operator()<Float8::e4m3>(from);
      body.template operator()<Float8::e5m2>(from);
    });
  }
  core::require(x.matrix.type == core::DataType::bf16, "FP8 rounding: GELU of numbers that are not bf16");
  core::require(format == (x.form == Form::gelu ? Float8::e4m3 : Float8::e5m2), "FP8 rounding: format of GELU");
  if (x.form == Form::gelu) return body.template operator()<Float8::e4m3>(Gelu<T>{{x.matrix.as<T>()}});
  core::require(x.pre.rows == x.matrix.rows && x.pre.columns == x.matrix.columns && x.pre.type == x.matrix.type,
                "FP8 rounding: shapes differ");
  core::require(x.sums.data == nullptr ||
                    (x.sums.rows == ProductOperand::partial_sums(x.matrix.rows) && x.sums.columns == x.matrix.columns),
                "FP8 rounding: partial sums of another shape");
  body.template operator()<Float8::e5m2>(GeluGradient<T>{x.matrix.as<T>(), x.pre.as<T>(), x.sums});
}

}  // namespace

void round_to_fp8(const ProductOperand& x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y) {
  core::require(x.matrix.rows == y.rows && x.matrix.columns == y.columns, "FP8 rounding: shapes differ");
  core::require(x.form != ProductOperand::Form::gelu_gradient, "FP8 rounding: a gradient of GELU without its sums");
  with_source(x, scale.format, [&]<Float8 format, class From>(const From& from) {
    if constexpr (!has_sums<From>) round_in<format>(from, scale, notes, y);
  });
}

void round_to_fp8_transposed(const ProductOperand& x, const Fp8Scale& scale, bool notes, Tensor<std::uint8_t> y,
                             Tensor<std::uint8_t> plain) {
  core::require(plain.data == nullptr || (plain.rows == x.matrix.rows && plain.columns == x.matrix.columns),
                "FP8 rounding: shapes differ");
  core::require(x.matrix.columns == y.rows && x.matrix.rows <= y.columns,
                "FP8 rounding: shapes are not those of a transposed copy");
  core::require(y.columns % chunk_bytes == 0 && y.stride % chunk_bytes == 0 &&
                    reinterpret_cast<std::uintptr_t>(y.data) % chunk_bytes == 0,
                "FP8 rounding: a transposed copy's rows are not made of 16 bytes");
  with_source(x, scale.format, [&]<Float8 format>(const auto& from) {
    round_transposed_in<format>(from, x.matrix, scale, notes, plain, y);
  });
}

}  // namespace bert_hpc::ops
