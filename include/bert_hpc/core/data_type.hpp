// The storage type of a number: float or one of the 16-bit types. Kernels read and write the 16-bit types but always
// compute in float. The types convert from and to float implicitly, so a kernel written for float also works for them.
#pragma once

#include <cstdint>

#include "bert_hpc/core/float16.hpp"

namespace bert_hpc::core {

enum class DataType : std::uint8_t { fp32, bf16, fp16 };

constexpr std::int64_t bytes_of(DataType type) {
  return type == DataType::fp32 ? 4 : 2;
}

/// The name used by the input key precision.compute.
constexpr const char* name_of(DataType type) {
  return type == DataType::fp32 ? "fp32" : type == DataType::bf16 ? "bf16" : "fp16";
}

/// Half the distance from 1 to the next larger number: the largest relative rounding error.
constexpr double unit_roundoff(DataType type) {
  return type == DataType::fp32 ? 0x1p-24 : type == DataType::bf16 ? 0x1p-8 : 0x1p-11;
}

struct Bf16 {
  std::uint16_t bits;

  Bf16() = default;
  BERT_HPC_DEVICE Bf16(float x) : bits(bf16_of_float(x)) {}               // NOLINT: conversion on purpose
  BERT_HPC_DEVICE operator float() const { return float_of_bf16(bits); }  // NOLINT
  /// GCC vectorizes loops that round with this assignment, and none that assign a temporary Bf16.
  BERT_HPC_DEVICE Bf16& operator=(float x) {
    bits = bf16_of_float(x);
    return *this;
  }
  BERT_HPC_DEVICE Bf16& operator+=(float x) { return *this = *this + x; }  // in float, rounded once
};

struct Fp16 {
  std::uint16_t bits;

  Fp16() = default;
  BERT_HPC_DEVICE Fp16(float x) : bits(fp16_of_float(x)) {}               // NOLINT: conversion on purpose
  BERT_HPC_DEVICE operator float() const { return float_of_fp16(bits); }  // NOLINT
  BERT_HPC_DEVICE Fp16& operator=(float x) {
    bits = fp16_of_float(x);
    return *this;
  }
  BERT_HPC_DEVICE Fp16& operator+=(float x) { return *this = *this + x; }
};

template <class T>
inline constexpr DataType data_type_of = DataType::fp32;
template <>
inline constexpr DataType data_type_of<Bf16> = DataType::bf16;
template <>
inline constexpr DataType data_type_of<Fp16> = DataType::fp16;

/// Calls run.template operator()<T>() with the C++ type T that `type` names.
template <class Run>
decltype(auto) with_type(DataType type, const Run& run) {
  switch (type) {
    case DataType::bf16:
      return run.template operator()<Bf16>();
    case DataType::fp16:
      return run.template operator()<Fp16>();
    default:
      return run.template operator()<float>();
  }
}

}  // namespace bert_hpc::core
