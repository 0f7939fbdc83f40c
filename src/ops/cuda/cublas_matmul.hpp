// One product as cuBLASLt sees it: description, layouts, choice of algorithm, launch. What is computed from what is
// decided by callers (gemm_cublas.cpp); what is here knows row-major matrices and the library's column-major ones.
//
// Row-major c = op(a)·op(b) is column-major cᵀ = op(b)ᵀ·op(a)ᵀ, on the same memory.
#pragma once

#include <cublasLt.h>

#include <map>
#include <set>
#include <vector>

#include "bert_hpc/core/buffer.hpp"
#include "matmul.hpp"

namespace bert_hpc::ops {

void check_cublas(cublasStatus_t status, const char* operation);

/// The library's handle with its scratch and what algorithms were chosen.
class CublasMatmul {
 public:
  /// `reproducible`: one algorithm for any number of rows, and no split of the inner dimension. `tf32`: for operands in
  /// fp32.
  explicit CublasMatmul(bool reproducible = true, bool tf32 = false) : reproducible_(reproducible), tf32_(tf32) {}
  ~CublasMatmul();
  CublasMatmul(const CublasMatmul&) = delete;
  CublasMatmul& operator=(const CublasMatmul&) = delete;

  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper

  /// Makes the handle and allocates, the first time.
  void prepare();
  /// Whether the library has an algorithm for products like this one. Not every epilogue exists for all types and
  /// alignments.
  bool offers(const Matmul& product);
  /// In the order of kernels.
  void run(const Matmul& product);
  /// Not where reproducible: tries algorithms on these operands, whose contents do not matter and whose result is
  /// overwritten; run() takes the fastest for products like this one. Waits for the device.
  void tune(const Matmul& product);

 private:
  struct Call;
  std::int64_t nominal_rows(const Matmul& product) const;
  /// At least one.
  std::vector<cublasLtMatmulAlgo_t> candidates(const Call& call, int most) const;
  std::vector<cublasLtMatmulAlgo_t> suggestions(const Call& call, int most) const;
  cublasStatus_t launch(const Call& call, const cublasLtMatmulAlgo_t& algorithm) const;
  float milliseconds(const Call& call, const cublasLtMatmulAlgo_t& algorithm) const;

  bool reproducible_, tf32_;
  cublasLtHandle_t handle_ = nullptr;
  core::Buffer<unsigned char> workspace_;
  std::map<MatmulKey, cublasLtMatmulAlgo_t> algorithms_;
  std::set<MatmulKey> missing_;  // for which the library has none
};

}  // namespace bert_hpc::ops
