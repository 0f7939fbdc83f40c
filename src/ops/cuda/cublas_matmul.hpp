// One product as cuBLASLt sees it: description, layouts, choice of algorithm, launch. What is computed from what is
// decided by callers (gemm_cublas.cpp); what is here knows row-major matrices and the library's column-major ones.
//
// Row-major c = op(a)·op(b) is column-major cᵀ = op(b)ᵀ·op(a)ᵀ, on the same memory.
#pragma once

#include <cublasLt.h>

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/float8.hpp"

namespace bert_hpc::ops {

void check_cublas(cublasStatus_t status, const char* operation);

/// Row-major c (m, n) = op(a)·op(b) + beta·c + bias, with op(a) (m, k) and op(b) (k, n); beta is 0 or 1.
struct Matmul {
  struct Operand {
    void* data = nullptr;  ///< written of c only
    std::int64_t stride = 0;
    core::DataType type = core::DataType::fp32;
    bool turned = false;  ///< stored as (columns, rows)
    /// 8-bit numbers instead of `type`, and 1 / their scale in device memory. Such products have an a that is not
    /// turned and a b that is: nothing else is offered before Blackwell. Extents are multiples of 16, but for m.
    std::optional<core::Float8> eight{};
    const float* inverse = nullptr;

    /// The largest power of two up to 16 bytes that divides address and stride.
    std::uint32_t alignment() const;
  };
  std::int64_t m = 0, n = 0, k = 0;
  Operand a{}, b{}, c{};
  float beta = 0;
  const float* bias = nullptr;         ///< (n), added where the result leaves the kernel; or null
  bool sums_over_padded_rows = false;  ///< of 8-bit numbers

  /// Rows of a batch: m, but k where both operands are batches (gradients of weights).
  bool sums_over_rows() const { return a.turned || sums_over_padded_rows; }
};

/// The library's handle with its scratch and what algorithms were chosen.
class CublasMatmul {
 public:
  CublasMatmul() = default;
  ~CublasMatmul();
  CublasMatmul(const CublasMatmul&) = delete;
  CublasMatmul& operator=(const CublasMatmul&) = delete;

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper

  /// Makes the handle and allocates, the first time.
  void prepare();
  /// In the order of kernels.
  void run(const Matmul& product);

 private:
  /// What an algorithm is chosen by: extents without the rows, kind (and the result's type), alignments.
  using Key = std::tuple<std::int64_t, std::int64_t, int, std::uint32_t, std::uint32_t, std::uint32_t>;
  static Key key_of(const Matmul& product);
  cublasLtMatmulAlgo_t choose(Matmul product) const;

  cublasLtHandle_t handle_ = nullptr;
  core::Buffer<unsigned char> workspace_;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms_;
};

}  // namespace bert_hpc::ops
