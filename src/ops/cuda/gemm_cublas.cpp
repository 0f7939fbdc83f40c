// Products by cuBLASLt: single precision as written (never TF32), row counts at run time. The only file that sees
// cuBLAS.
//
// An algorithm is chosen once per kind of product, for a nominal number of rows, and without a split of the inner
// dimension: what a row gives then depends on that row and on the kernel, which is the same whatever the batch, and
// nothing is searched for when a batch brings a new number of rows.
#include <cublasLt.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/device_runtime.hpp"
#include "bert_hpc/core/error.hpp"
#include "cuda_products.hpp"

namespace bert_hpc::ops {
namespace {

constexpr std::int64_t nominal_rows = 4096;
constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what NVIDIA recommends for Hopper

void check_cublas(cublasStatus_t status, const char* operation) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw core::Error(core::ExitCode::internal,
                    std::string("cuBLASLt failed in ") + operation + ": " + cublasLtGetStatusString(status) + ".");
}

/// The largest power of two up to 16 that divides an address or a stride in bytes: what vector loads may count on.
std::uint32_t alignment_of(std::uint64_t bytes) {
  std::uint32_t alignment = 16;
  while (alignment > 4 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

std::uint32_t alignment_of(const float* pointer, std::int64_t stride) {
  return std::min(alignment_of(reinterpret_cast<std::uintptr_t>(pointer)),
                  alignment_of(static_cast<std::uint64_t>(stride) * sizeof(float)));
}

/// What an algorithm is chosen by: extents without the rows, kind, alignments.
using Key = std::tuple<std::int64_t, std::int64_t, int, bool, std::uint32_t, std::uint32_t, std::uint32_t>;

class CublasProduct final : public GemmProduct {
 public:
  CublasProduct() = default;
  ~CublasProduct() override {
    if (handle_ != nullptr) cublasLtDestroy(handle_);
  }
  CublasProduct(const CublasProduct&) = delete;
  CublasProduct& operator=(const CublasProduct&) = delete;

  std::string name() const override {
    const std::size_t version = cublasLtGetVersion();
    return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100);
  }
  bool rows_are_independent() const override { return true; }

  /// Without a GPU (an estimate on a login node) only the bytes are told.
  std::int64_t reserve(const ProductExtents&) override {
    if (core::DeviceRuntime::missing_device().empty()) prepare();
    return static_cast<std::int64_t>(workspace_bytes);
  }

  void forward(Tensor<const float> x, Tensor<const float> w, const float* bias, Tensor<float> y) override {
    detail::require_product_shapes(x, w, y);
    bias_ = bias;  // added where the result leaves the kernel
    GemmProduct::forward(x, w, nullptr, y);
    bias_ = nullptr;
  }

 private:
  void prepare() {
    if (handle_ != nullptr) return;
    check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
    workspace_ = core::Buffer<unsigned char>(static_cast<std::int64_t>(workspace_bytes));
  }

  // Row-major c = op(a)·op(b) is column-major cᵀ = op(b)ᵀ·op(a)ᵀ, on the same memory.
  void gemm(Use use_a, Use use_b, std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_stride,
            const float* b, std::int64_t b_stride, float beta, float* c, std::int64_t c_stride) override {
    prepare();
    const bool a_turned = use_a == Use::transposed, b_turned = use_b == Use::transposed;
    // A matrix of one row may have any stride; the library wants one that fits.
    a_stride = std::max(a_stride, a_turned ? m : k);
    b_stride = std::max(b_stride, b_turned ? k : n);
    c_stride = std::max(c_stride, n);
    cublasLtMatmulDescOpaque_t product;
    describe(product, a_turned, b_turned);
    const auto chosen = [&](std::int64_t rows_m, std::int64_t rows_k) {
      Layouts nominal(a_turned, b_turned, rows_m, n, rows_k, a_stride, b_stride, c_stride);
      return choose(product, nominal, a, a_stride, b, b_stride, c, c_stride);
    };
    const int kind = (a_turned ? 1 : 0) + (b_turned ? 2 : 0) + (beta != 0.0f ? 4 : 0);
    // Rows are m, but k where both operands are batches (gradients of weights).
    const Key key{n,
                  a_turned ? m : k,
                  kind,
                  bias_ != nullptr,
                  alignment_of(a, a_stride),
                  alignment_of(b, b_stride),
                  alignment_of(c, c_stride)};
    auto found = algorithms_.find(key);
    if (found == algorithms_.end()) {
      found = algorithms_.emplace(key, a_turned ? chosen(m, nominal_rows) : chosen(nominal_rows, k)).first;
    }
    Layouts layouts(a_turned, b_turned, m, n, k, a_stride, b_stride, c_stride);
    const float one = 1.0f;
    check_cublas(cublasLtMatmul(handle_, &product, &one, b, &layouts.b, a, &layouts.a, &beta, c, &layouts.c, c,
                                &layouts.c, &found->second, workspace_.data(), workspace_bytes,
                                static_cast<cudaStream_t>(core::kernel_stream())),
                 "cublasLtMatmul");
  }

  struct Layouts {
    Layouts(bool a_turned, bool b_turned, std::int64_t m, std::int64_t n, std::int64_t k, std::int64_t a_stride,
            std::int64_t b_stride, std::int64_t c_stride) {
      init(a, a_turned ? k : m, a_turned ? m : k, a_stride);
      init(b, b_turned ? n : k, b_turned ? k : n, b_stride);
      init(c, m, n, c_stride);
    }
    /// Of a row-major (rows, columns): column-major (columns, rows).
    static void init(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns,
                     std::int64_t stride) {
      check_cublas(cublasLtMatrixLayoutInit(&layout, CUDA_R_32F, static_cast<std::uint64_t>(columns),
                                            static_cast<std::uint64_t>(rows), stride),
                   "cublasLtMatrixLayoutInit");
    }
    cublasLtMatrixLayoutOpaque_t a, b, c;
  };

  void describe(cublasLtMatmulDescOpaque_t& product, bool a_turned, bool b_turned) const {
    check_cublas(cublasLtMatmulDescInit(&product, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
    const cublasOperation_t first = b_turned ? CUBLAS_OP_T : CUBLAS_OP_N, second = a_turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(product, CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(product, CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (bias_ == nullptr) return;
    set(product, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias_);
  }

  template <class T>
  static void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check_cublas(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof value),
                 "cublasLtMatmulDescSetAttribute");
  }

  template <class T>
  static void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
                     const T& value) {
    check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
                 "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulAlgo_t choose(cublasLtMatmulDescOpaque_t& product, Layouts& layouts, const float* a,
                              std::int64_t a_stride, const float* b, std::int64_t b_stride, const float* c,
                              std::int64_t c_stride) const {
    cublasLtMatmulPreferenceOpaque_t preference;
    check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    const std::uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
    prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_split);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment_of(b, b_stride));
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment_of(a, a_stride));
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment_of(c, c_stride));
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment_of(c, c_stride));
    cublasLtMatmulHeuristicResult_t result{};
    int found = 0;
    check_cublas(cublasLtMatmulAlgoGetHeuristic(handle_, &product, &layouts.b, &layouts.a, &layouts.c, &layouts.c,
                                                &preference, 1, &result, &found),
                 "cublasLtMatmulAlgoGetHeuristic");
    core::require(found > 0, "cuBLASLt knows no algorithm for a product of a linear layer");
    return result.algo;
  }

  cublasLtHandle_t handle_ = nullptr;
  core::Buffer<unsigned char> workspace_;
  std::map<Key, cublasLtMatmulAlgo_t> algorithms_;
  const float* bias_ = nullptr;  // of the forward product under way
};

}  // namespace

std::unique_ptr<MatrixProduct> make_cublas_product() {
  return std::make_unique<CublasProduct>();
}

}  // namespace bert_hpc::ops
