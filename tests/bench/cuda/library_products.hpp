// Products described to cuBLASLt itself, for bench_fp8: every factor that may decide whether the library accepts a
// product is a member of Way.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::bench {

inline constexpr std::size_t operand_bytes = std::size_t{160} << 20, pinned_bytes = std::size_t{16} << 20;
inline constexpr std::size_t scratch_bytes = std::size_t{32} << 20;
inline constexpr int scales = 64;  // floats; entry i is 2^-(i % 8), so that a wrong address gives a wrong result
inline void check(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  std::printf("%s: %s\n= the device failed in %s: %s\n", what, cudaGetErrorString(status), what,
              cudaGetErrorString(status));
  std::exit(1);
}

inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::printf("= %s: %s\n", what, cublasLtGetStatusString(status));
  std::exit(1);
}

/// Row-major c (m, n) = a (m, k) · b (n, k)ᵀ / scales + beta·c. Transposed operands, which 8-bit products do not have,
/// are stored the other way round.
struct Problem {
  std::int64_t m = 0, n = 0, k = 0;
  cudaDataType_t a = CUDA_R_8F_E4M3, b = CUDA_R_8F_E4M3, c = CUDA_R_16BF;
  float beta = 0;
  bool a_transposed = false, b_transposed = false;
  std::int64_t stride = 0;  ///< of a and b if that is not their number of columns
};

enum class Kind { forward, input, weight };
inline constexpr Kind kinds[] = {Kind::forward, Kind::input, Kind::weight};
inline constexpr const char* kind_names[] = {"forward", "d_x", "d_w"};

inline bool eight(cudaDataType_t type) {
  return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

inline std::size_t size_of(cudaDataType_t type) {
  return eight(type) ? 1 : type == CUDA_R_32F ? 4 : 2;
}

/// The product of a linear layer for a batch of `rows`, in 8-bit numbers or in bf16.
inline Problem product(Kind kind, std::int64_t rows, std::int64_t in, std::int64_t out, bool in_eight) {
  const cudaDataType_t x = in_eight ? CUDA_R_8F_E4M3 : CUDA_R_16BF, d_y = in_eight ? CUDA_R_8F_E5M2 : CUDA_R_16BF;
  if (kind == Kind::forward) return {.m = rows, .n = out, .k = in, .a = x, .b = x};
  if (kind == Kind::input) return {.m = rows, .n = in, .k = out, .a = d_y, .b = x, .b_transposed = !in_eight};
  return {.m = out,
          .n = in,
          .k = rows,
          .a = d_y,
          .b = x,
          .c = CUDA_R_32F,
          .beta = 1,
          .a_transposed = !in_eight,
          .b_transposed = !in_eight};
}

/// How a product is asked for and launched.
struct Way {
  const char* name = "";
  int scale_a = 0, scale_b = 0;      ///< entries of the tables of scales: 4 bytes each
  std::int64_t nominal_rows = 0;     ///< for which the algorithm is chosen; 0: the actual ones
  std::int64_t rows_multiple = 1;    ///< what is launched is padded to this
  std::int64_t stride_multiple = 1;  ///< of a and b in d_w, whose columns are the batch's rows
  std::size_t scratch = scratch_bytes;
  bool splits = true;            ///< sums
  std::uint32_t alignment = 16;  ///< promised to the heuristic
  bool pinned_operands = false, pinned_scales = false;
  signed char fast = 0;  ///< CUBLASLT_MATMUL_DESC_FAST_ACCUM
};

template <class T>
void set(cublasLtMatmulDescOpaque_t& description, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check(cublasLtMatmulDescSetAttribute(&description, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <class T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
            const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

class LibraryProducts {
 public:
  LibraryProducts() {
    check(cublasLtCreate(&handle_), "cublasLtCreate");
    for (auto& memory : device_) check(cudaMalloc(&memory, operand_bytes), "cudaMalloc");
    for (auto& memory : pinned_) check(cudaMallocHost(&memory, pinned_bytes), "cudaMallocHost");
    check(cudaMalloc(&scratch_, scratch_bytes), "cudaMalloc");
    float table[2 * scales];
    for (int i = 0; i < 2 * scales; ++i) table[i] = scale(i);
    check(cudaMalloc(reinterpret_cast<void**>(&scales_[0]), sizeof table), "cudaMalloc");
    check(cudaMallocHost(reinterpret_cast<void**>(&scales_[1]), sizeof table), "cudaMallocHost");
    for (float* to : scales_) check(cudaMemcpy(to, table, sizeof table, cudaMemcpyDefault), "cudaMemcpy");
  }

  /// '+' accepted with the right result, 'x' with a wrong one, 'r' refused at launch, '-' no algorithm, '!' failed on
  /// the device, ' ' not tried.
  char attempt(const Problem& p, const Way& way) {
    void* const* memory = way.pinned_operands ? pinned_ : device_;
    if (way.pinned_operands && bytes(p) > pinned_bytes) return ' ';
    fill(memory[0], p.a, extent(p, p.m, p.a_transposed));
    fill(memory[1], p.b, extent(p, p.n, p.b_transposed));
    check(cudaMemset(memory[2], 0x40, static_cast<std::size_t>(p.m * p.n) * size_of(p.c)), "cudaMemset");
    const Call call(p, way, scales_[way.pinned_scales ? 1 : 0]);
    Problem asked = p;
    if (way.nominal_rows > 0) {
      (p.c == CUDA_R_32F && p.beta != 0 ? asked.k : asked.m) = way.nominal_rows;
      if (asked.k != p.k) asked.stride = 0;
    }
    const std::vector<cublasLtMatmulAlgo_t> algorithms =
        suggestions(Call(asked, way, scales_[way.pinned_scales ? 1 : 0]), way, 1);
    if (algorithms.empty()) return '-';
    const cublasStatus_t status = launch(call, memory, algorithms.front(), way.scratch);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return 'r';
    if (status != CUBLAS_STATUS_SUCCESS || cudaDeviceSynchronize() != cudaSuccess) return '!';
    return right(p, way, memory[2]) ? '+' : 'x';
  }

  /// µs of the library's first suggestion and of the best of eight; infinite if none works.
  std::pair<float, float> microseconds(const Problem& p, const Way& way) {
    fill(device_[0], p.a, extent(p, p.m, p.a_transposed));
    fill(device_[1], p.b, extent(p, p.n, p.b_transposed));
    const Call call(p, way, scales_[0]);
    float first = INFINITY, best = INFINITY;
    for (const cublasLtMatmulAlgo_t& algorithm : suggestions(call, way, 8)) {
      if (launch(call, device_, algorithm, way.scratch) != CUBLAS_STATUS_SUCCESS) continue;
      const float time = time_of([&] { launch(call, device_, algorithm, way.scratch); });
      if (std::isinf(first)) first = time;
      best = std::min(best, time);
    }
    return {first, best};
  }

  /// The least of four rounds of several calls.
  static float time_of(const std::function<void()>& work) {
    static cudaEvent_t begin = nullptr, end = nullptr;
    if (begin == nullptr) {
      check(cudaEventCreate(&begin), "cudaEventCreate");
      check(cudaEventCreate(&end), "cudaEventCreate");
    }
    constexpr int calls = 4;
    float least = INFINITY;
    for (int round = 0; round < 4; ++round) {
      float time = 0;
      check(cudaEventRecord(begin, stream()), "cudaEventRecord");
      for (int i = 0; i < calls; ++i) work();
      check(cudaEventRecord(end, stream()), "cudaEventRecord");
      check(cudaEventSynchronize(end), "a product");
      check(cudaEventElapsedTime(&time, begin, end), "cudaEventElapsedTime");
      least = std::min(least, 1e3f * time / calls);
    }
    return least;
  }

 private:
  static cudaStream_t stream() { return static_cast<cudaStream_t>(core::kernel_stream()); }
  /// A product in the library's terms, which are column-major: its A is b.
  struct Call {
    Call(const Problem& p, const Way& way, const float* table) : problem(p) {
      check(cublasLtMatmulDescInit(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
      set(description, CUBLASLT_MATMUL_DESC_TRANSA, p.b_transposed ? CUBLAS_OP_N : CUBLAS_OP_T);
      set(description, CUBLASLT_MATMUL_DESC_TRANSB, p.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
      if (eight(p.a)) {
        const float *first = table + way.scale_b, *second = table + way.scale_a;
        set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, first);
        set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, second);
        set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, way.fast);
      }
      layout(b, p.b, p.n, p.k, p.b_transposed, p.stride);
      layout(a, p.a, p.m, p.k, p.a_transposed, p.stride);
      layout(c, p.c, p.m, p.n, false, 0);
    }
    static void layout(cublasLtMatrixLayoutOpaque_t& to, cudaDataType_t type, std::int64_t rows, std::int64_t columns,
                       bool transposed, std::int64_t stride) {
      if (transposed) std::swap(rows, columns);
      check(cublasLtMatrixLayoutInit(&to, type, static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows),
                                     stride > 0 ? stride : columns),
            "cublasLtMatrixLayoutInit");
    }
    Problem problem;
    mutable cublasLtMatmulDescOpaque_t description;
    mutable cublasLtMatrixLayoutOpaque_t a, b, c;
  };

  static float scale(int i) { return std::ldexp(1.0f, -(i % 8)); }
  static std::size_t extent(const Problem& p, std::int64_t rows, bool transposed) {
    return static_cast<std::size_t>(transposed ? rows * p.k : rows * std::max(p.k, p.stride));
  }
  static std::size_t bytes(const Problem& p) {
    return std::max({extent(p, p.m, false), extent(p, p.n, false), static_cast<std::size_t>(p.m * p.n) * size_of(p.c)});
  }
  /// Ones; bf16 gets numbers near it, which serve to measure times.
  static void fill(void* memory, cudaDataType_t type, std::size_t count) {
    const int byte = type == CUDA_R_8F_E4M3 ? 0x38 : type == CUDA_R_8F_E5M2 ? 0x3C : 0x3F;
    check(cudaMemset(memory, byte, count * size_of(type)), "cudaMemset");
  }

  std::vector<cublasLtMatmulAlgo_t> suggestions(const Call& call, const Way& way, int most) const {
    cublasLtMatmulPreferenceOpaque_t preference;
    check(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    const std::uint32_t reductions = way.splits ? CUBLASLT_REDUCTION_SCHEME_MASK : CUBLASLT_REDUCTION_SCHEME_NONE;
    prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, way.scratch);
    prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions);
    for (const auto attribute :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      prefer(preference, attribute, way.alignment);
    }
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, &call.description, &call.b, &call.a, &call.c,
                                                                 &call.c, &preference, most, results.data(), &found);
    std::vector<cublasLtMatmulAlgo_t> algorithms;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i) {
      const auto& result = results[static_cast<std::size_t>(i)];
      if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
    }
    return algorithms;
  }

  cublasStatus_t launch(const Call& call, void* const* memory, const cublasLtMatmulAlgo_t& algorithm,
                        std::size_t scratch) const {
    const float one = 1.0f;
    return cublasLtMatmul(handle_, &call.description, &one, memory[1], &call.b, memory[0], &call.a, &call.problem.beta,
                          memory[2], &call.c, memory[2], &call.c, &algorithm, scratch_, scratch, stream());
  }

  static bool right(const Problem& p, const Way& way, const void* c) {
    const double expected = static_cast<double>(p.k) * static_cast<double>(scale(way.scale_a) * scale(way.scale_b)) +
                            static_cast<double>(p.beta) * (p.c == CUDA_R_32F ? 3.0039215 : 3.0);
    for (const std::int64_t at : {std::int64_t{0}, p.m * p.n - 1}) {
      std::uint32_t bits = 0;
      const std::size_t size = size_of(p.c);
      check(
          cudaMemcpy(&bits, static_cast<const char*>(c) + static_cast<std::size_t>(at) * size, size, cudaMemcpyDefault),
          "cudaMemcpy");
      if (size == 2) bits <<= 16;
      const double found = static_cast<double>(__builtin_bit_cast(float, bits));
      if (!(std::fabs(found - expected) <= 0.01 * expected)) return false;
    }
    return true;
  }

  cublasLtHandle_t handle_ = nullptr;
  void *device_[3], *pinned_[3], *scratch_ = nullptr;
  float* scales_[2];  // in device memory, and pinned
};

}  // namespace bert_hpc::bench
