// The inner loops of products of 8-bit integers, in GCC's vector extensions. CMake compiles this file once per
// instruction set, with BERT_HPC_ISA as the namespace. Everything except the table has internal linkage (see
// ../isa/tile_kernels.cpp).
#include "int8_kernels.hpp"

#include "../isa/register_tile.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "integer_words.hpp"

namespace bert_hpc::ops::cpu::BERT_HPC_ISA {
namespace {

constexpr std::int64_t columns = panel;
constexpr float unsigned_range = 255.0f, signed_range = 127.0f;
constexpr float to_nearest = 12582912.0f;  // 1.5·2^23: adding it leaves the nearest integer in the lowest bits
static_assert(int8_block_columns % columns == 0, "a block of columns is whole panels");

/// Step between two quantized numbers, and its inverse. A step of 0 stands for a range so short that its inverse would
/// overflow. `check` is 0, or NaN if a number is not finite; then the scale is NaN.
struct Step {
  float scale, inverse;

  Step(float range, float levels, float check) {
    constexpr float min_range = 1e-30f;
    scale = (range >= min_range ? range / levels : 0.0f) + check + range * 0.0f;
    inverse = range >= min_range ? levels / range : 0.0f;
  }
};

/// Step and zero of numbers in [low, high], which includes 0.
struct Quantization : Step {
  float zero;

  Quantization(float low, float high, float check)
      : Step(high - low, unsigned_range, check), zero(inverse > 0 ? -low * inverse + to_nearest - to_nearest : 0.0f) {}
};

inline IntVector quantized(Vector x, const Quantization& q) {
  Vector t = x * q.inverse + q.zero;
  t = t < Vector{} ? Vector{} : t;
  t = t > broadcast(unsigned_range) ? broadcast(unsigned_range) : t;
  return reinterpret_cast<IntVector>(t + to_nearest) & 255;
}

void quantize_row(const float* from, std::int64_t length, std::int64_t words, Words::Element* to, float& scale,
                  std::int32_t& zero) {
  Vector low{}, high{}, check{};
  std::int64_t l = 0;
  for (; l + lanes <= length; l += lanes) {
    const Vector x = load(from + l);
    low = x < low ? x : low;
    high = larger(x, high);
    check += x * 0.0f;
  }
  alignas(64) float last[lanes] = {};  // the rest of the row, and zeros
  if (l < length) {
    __builtin_memcpy(last, from + l, static_cast<std::size_t>(length - l) * sizeof(float));
    const Vector x = load(last);
    low = x < low ? x : low;
    high = larger(x, high);
    check += x * 0.0f;
  }
  const Quantization q(-largest_lane(-low), largest_lane(high), sum_of_lanes(check));
  scale = q.scale;
  zero = static_cast<std::int32_t>(q.zero);
  std::int64_t done = 0;
  for (; done + lanes <= length; done += lanes) {
    const auto narrow = __builtin_convertvector(quantized(load(from + done), q), Words::Elements);
    __builtin_memcpy(to + done, &narrow, sizeof narrow);
  }
  if (done < length) {
    const auto narrow = __builtin_convertvector(quantized(load(last), q), Words::Elements);
    __builtin_memcpy(to + done, &narrow, static_cast<std::size_t>(length - done) * sizeof(Words::Element));
  }
  for (done = length; done < words * Words::terms; ++done) to[done] = 0;
}

void quantize(const QuantizeJob& job) {
  for (std::int64_t i = 0; i < job.rows; ++i) {
    auto* const to = reinterpret_cast<Words::Element*>(job.to + i * job.words);
    quantize_row(job.from + i * job.stride, job.length, job.words, to, job.scales[i], job.zeros[i]);
  }
}

void pack_panel(const PanelJob& job) {
  const std::int64_t words = (job.length + Words::terms - 1) / Words::terms;
  auto* const to = reinterpret_cast<Words::Element*>(job.to);
  for (std::int64_t j = 0; j < columns; ++j) {
    job.sums[j] = 0;
    const float* from = job.from + j * job.stride;
    const std::int64_t length = j < job.outputs ? job.length : 0;
    float largest = 0, check = 0;
    for (std::int64_t l = 0; l < length; ++l) {
      const float magnitude = __builtin_fabsf(from[l]);
      largest = magnitude > largest ? magnitude : largest;
      check += from[l] * 0.0f;
    }
    const Step step(largest, signed_range, check);
    job.scales[j] = step.scale;
    for (std::int64_t l = 0; l < words * Words::terms; ++l) {
      std::int32_t r = 0;
      if (l < length) {
        const float shifted = from[l] * step.inverse + to_nearest;
        std::int32_t bits;
        __builtin_memcpy(&bits, &shifted, sizeof bits);
        r = (bits & 255) - ((bits & 128) << 1);
      }
      job.sums[j] += r;
      to[(l / Words::terms * columns + j) * Words::terms + l % Words::terms] = static_cast<Words::Element>(r);
    }
  }
}

void multiply(const IntegerJob& job) {
  for (std::int64_t column = 0; column < job.n; column += columns) {
    const std::uint32_t* b = job.b + column / columns * job.b_stride;
    for (std::int64_t row = 0; row < job.m; row += tile_rows) {
      tile_of_rows<Words>(job.m - row < tile_rows ? job.m - row : tile_rows, false, job.a + row * job.a_stride,
                          job.a_stride, b, job.k, job.adds ? Begin::existing : Begin::zero, nullptr,
                          job.c + row * job.c_stride + column, job.c_stride);
    }
  }
}

// Lanes from column j on, of a row with this scale and zero.
inline Vector finished(const FinishJob& job, const std::int32_t* c, float scale, std::int32_t zero, const float* bias,
                       std::int64_t j) {
  const IntVector sum = load(c + j) - load(job.column_sums + j) * zero;
  const Vector scaled = __builtin_convertvector(sum, Vector) * (load(job.column_scales + j) * scale);
  return bias == nullptr ? scaled : scaled + load(bias + j);
}

// gelu of `count` elements in whole vectors, so that an element's bits do not depend on its position.
inline void gelu_row(const float* __restrict from, std::int64_t count, float* __restrict to) {
  const std::int64_t whole = count / lanes * lanes;
#pragma GCC ivdep
  for (std::int64_t j = 0; j < whole; ++j) to[j] = gelu(from[j]);
  if (whole == count) return;
  alignas(64) float last[lanes] = {}, results[lanes];
  const auto bytes = static_cast<std::size_t>(count - whole) * sizeof(float);
  __builtin_memcpy(last, from + whole, bytes);
#pragma GCC ivdep
  for (std::int64_t l = 0; l < lanes; ++l) results[l] = gelu(last[l]);
  __builtin_memcpy(to + whole, results, bytes);
}

void finish(const FinishJob& job) {
  alignas(64) float bias[int8_block_columns] = {};
  if (job.bias != nullptr) __builtin_memcpy(bias, job.bias, static_cast<std::size_t>(job.columns) * sizeof(float));
  const std::int64_t whole = job.columns / lanes * lanes;
  for (std::int64_t i = 0; i < job.rows; ++i) {
    const std::int32_t* const c = job.c + i * job.c_stride;
    float* const y = job.y + i * job.y_stride;
    float* const sums = job.pre == nullptr ? y : job.pre + i * job.pre_stride;
    const auto lanes_at = [&](std::int64_t j) {
      return finished(job, c, job.row_scales[i], job.row_zeros[i], job.bias == nullptr ? nullptr : bias, j);
    };
    for (std::int64_t j = 0; j < whole; j += lanes) store(sums + j, lanes_at(j));
    if (whole < job.columns) {
      const Vector last = lanes_at(whole);
      __builtin_memcpy(sums + whole, &last, static_cast<std::size_t>(job.columns - whole) * sizeof(float));
    }
    if (job.pre != nullptr) gelu_row(sums, job.columns, y);
  }
}

}  // namespace

const Int8Kernels& int8_kernels() {
  static constexpr Int8Kernels kernels = {BERT_HPC_TEXT(BERT_HPC_ISA),
                                          tile_rows,
                                          columns,
                                          Words::terms,
                                          lanes == 16 ? 192 : 96,
                                          quantize,
                                          pack_panel,
                                          multiply,
                                          finish};
  return kernels;
}

}  // namespace bert_hpc::ops::cpu::BERT_HPC_ISA
