// FP8 rounding, element by element. The largest magnitude is an integer maximum of bit patterns, which does not depend
// on order.
#include "bert_hpc/ops/fp8_rounding.hpp"

#include "fp8_note.hpp"
#include "kernel.hpp"
#include "kernel_blocks.hpp"
#include "kernel_rows.hpp"

namespace bert_hpc::ops {
namespace {

using core::Float8;
using core::Tensor;

/// y_ij = f(x_ij) if y has data; *noted = max(*noted, |x_ij|) if noted is not null.
template <class T, class U, class F>
void round_each(const char* label, Tensor<const T> x, std::uint32_t* noted, Tensor<U> y, const F& f) {
#if BERT_HPC_WARPS
  kernel::for_noted_packs(
      label, AsStored<T>{x}, x.rows, x.columns, noted,
      KOKKOS_LAMBDA(std::int64_t i, std::int64_t begin, int count, float(&value)[packs::width]) {
        if (y.data == nullptr) return;
        for (int j = 0; j < packs::width; ++j) value[j] = f(value[j]);
        packs::store(value, count, y.row(i) + begin);
      });
#else
  kernel::for_items(
      label, x.rows, KOKKOS_LAMBDA(std::int64_t i) {
        const T* const from = x.row(i);
        std::uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
        for (std::int64_t j = 0; j < x.columns; ++j) {
          const std::uint32_t bits = magnitude_bits(from[j]);
          largest = bits > largest ? bits : largest;
        }
        if (noted != nullptr) note(noted, largest);
        if (y.data == nullptr) return;
        U* const to = y.row(i);
#pragma omp simd
        for (std::int64_t j = 0; j < x.columns; ++j) to[j] = U(f(from[j]));
      });
#endif
}

/// y = float8(x·s) / s
template <Float8 format, class T, class U>
void round_in(Tensor<const T> x, const Fp8Scale& scale, bool notes, Tensor<U> y) {
  const float *s = scale.scale, *inverse = scale.inverse;
  round_each(
      "bert_hpc::ops::fp8_round", x, notes ? scale.largest : nullptr, y,
      KOKKOS_LAMBDA(float value) { return core::through_float8<format>(value, *s, *inverse); });
}

template <class T>
void note_in(Tensor<const T> x, std::uint32_t* noted) {
  round_each(
      "bert_hpc::ops::fp8_note", x, noted, Tensor<T>(), KOKKOS_LAMBDA(float value) { return value; });
}

}  // namespace

void note_magnitude(core::ConstMatrix x, const Fp8Scale& scale) {
  core::with_type(x.type, [&]<class T>() { note_in<T>(x.as<T>(), scale.largest); });
}

void round_through_fp8(core::ConstMatrix x, const Fp8Scale& scale, bool notes, core::Matrix y) {
  core::with_type(x.type, [&]<class T>() {
    core::with_type(y.type, [&]<class U>() {
      if (scale.format == Float8::e4m3) {
        round_in<Float8::e4m3, T, U>(x.as<T>(), scale, notes, y.as<U>());
      } else {
        round_in<Float8::e5m2, T, U>(x.as<T>(), scale, notes, y.as<U>());
      }
    });
  });
}

}  // namespace bert_hpc::ops
