// Products by cuBLASLt: single precision as written (never TF32), or of 16-bit operands with sums in single precision;
// row counts at run time. The only file that sees cuBLAS.
//
// The library wants both operands in one type. What is stored in float beside 16-bit operands (weights, and the
// gradients of logits) is rounded into scratch before its product.
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
#include "bert_hpc/ops/activation.hpp"
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
  while (alignment > 2 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

/// A matrix as the library gets it.
struct Place {
  const void* data;
  std::int64_t stride;
  core::DataType type;

  std::uint32_t alignment() const {
    return std::min(alignment_of(reinterpret_cast<std::uintptr_t>(data)),
                    alignment_of(static_cast<std::uint64_t>(stride * core::bytes_of(type))));
  }
};

cudaDataType_t cuda_type(core::DataType type) {
  return type == core::DataType::bf16 ? CUDA_R_16BF : type == core::DataType::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

/// What an algorithm is chosen by: extents without the rows, kind (and the result's type), alignments.
using Key = std::tuple<std::int64_t, std::int64_t, int, bool, std::uint32_t, std::uint32_t, std::uint32_t>;

class CublasProduct final : public GemmProduct {
 public:
  using GemmProduct::GemmProduct;
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
  std::int64_t reserve(const ProductExtents& e) override {
    if (compute() != core::DataType::fp32) {
      rounded_elements_[0] = std::max(rounded_elements_[0], e.rows * std::max(e.in, e.out));
      rounded_elements_[1] = std::max(rounded_elements_[1], std::max(e.in * e.out, e.rows * std::max(e.in, e.out)));
    }
    if (core::DeviceRuntime::missing_device().empty()) prepare();
    return static_cast<std::int64_t>(workspace_bytes) +
           core::bytes_of(compute()) * (rounded_elements_[0] + rounded_elements_[1]);
  }

  void forward(ConstMatrix x, Tensor<const float> w, const float* bias, Matrix y) override {
    detail::require_product_shapes(compute(), x, w, y);
    if (compute() != core::DataType::fp32) return GemmProduct::forward(x, w, bias, y);
    bias_ = bias;  // added where the result leaves the kernel
    GemmProduct::forward(x, w, nullptr, y);
    bias_ = nullptr;
  }

 private:
  void prepare() {
    for (int i = 0; i < 2; ++i) {
      if (rounded_[i].size() >= rounded_elements_[i]) continue;
      rounded_[i] = core::Buffer<std::uint16_t>();  // the old before the new
      rounded_[i] = core::Buffer<std::uint16_t>(rounded_elements_[i]);
    }
    if (handle_ != nullptr) return;
    check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
    workspace_ = core::Buffer<unsigned char>(static_cast<std::int64_t>(workspace_bytes));
  }

  /// An operand (rows, columns) in the type of the computation, the second of a product in the second scratch.
  Place placed(const Operand& x, std::int64_t rows, std::int64_t columns, int scratch) {
    // A matrix of one row may have any stride; the library wants one that fits.
    const std::int64_t stride = std::max(x.stride, columns);
    if (x.type == compute()) return {x.data, stride, x.type};
    core::require(rows * columns <= rounded_[scratch].size(), "matrix product: an operand is larger than was reserved");
    const Matrix to(rounded_[scratch].data(), rows, columns, columns, compute());
    copy(ConstMatrix(x.data, rows, columns, stride, x.type), to);
    return {to.data, columns, compute()};
  }

  // Row-major c = op(a)·op(b) is column-major cᵀ = op(b)ᵀ·op(a)ᵀ, on the same memory.
  void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Operand& stored_a, const Operand& stored_b,
            float beta, const Result& stored_c) override {
    prepare();
    const bool a_turned = stored_a.use == Use::transposed, b_turned = stored_b.use == Use::transposed;
    const Place a = placed(stored_a, a_turned ? k : m, a_turned ? m : k, 0);
    const Place b = placed(stored_b, b_turned ? n : k, b_turned ? k : n, 1);
    const Place c{stored_c.data, std::max(stored_c.stride, n), stored_c.type};
    cublasLtMatmulDescOpaque_t product;
    describe(product, a_turned, b_turned);
    const auto chosen = [&](std::int64_t rows_m, std::int64_t rows_k) {
      Layouts nominal(a_turned, b_turned, rows_m, n, rows_k, a, b, c);
      return choose(product, nominal, a, b, c);
    };
    const int kind =
        (a_turned ? 1 : 0) + (b_turned ? 2 : 0) + (beta != 0.0f ? 4 : 0) + (c.type != core::DataType::fp32 ? 8 : 0);
    // Rows are m, but k where both operands are batches (gradients of weights).
    const Key key{n, a_turned ? m : k, kind, bias_ != nullptr, a.alignment(), b.alignment(), c.alignment()};
    auto found = algorithms_.find(key);
    if (found == algorithms_.end()) {
      found = algorithms_.emplace(key, a_turned ? chosen(m, nominal_rows) : chosen(nominal_rows, k)).first;
    }
    Layouts layouts(a_turned, b_turned, m, n, k, a, b, c);
    const float one = 1.0f;
    check_cublas(cublasLtMatmul(handle_, &product, &one, b.data, &layouts.b, a.data, &layouts.a, &beta, c.data,
                                &layouts.c, stored_c.data, &layouts.c, &found->second, workspace_.data(),
                                workspace_bytes, static_cast<cudaStream_t>(core::kernel_stream())),
                 "cublasLtMatmul");
  }

  struct Layouts {
    Layouts(bool a_turned, bool b_turned, std::int64_t m, std::int64_t n, std::int64_t k, const Place& place_a,
            const Place& place_b, const Place& place_c) {
      init(a, a_turned ? k : m, a_turned ? m : k, place_a);
      init(b, b_turned ? n : k, b_turned ? k : n, place_b);
      init(c, m, n, place_c);
    }
    /// Of a row-major (rows, columns): column-major (columns, rows).
    static void init(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns,
                     const Place& place) {
      check_cublas(cublasLtMatrixLayoutInit(&layout, cuda_type(place.type), static_cast<std::uint64_t>(columns),
                                            static_cast<std::uint64_t>(rows), place.stride),
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

  cublasLtMatmulAlgo_t choose(cublasLtMatmulDescOpaque_t& product, Layouts& layouts, const Place& a, const Place& b,
                              const Place& c) const {
    cublasLtMatmulPreferenceOpaque_t preference;
    check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
    prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    const std::uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
    prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_split);
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b.alignment());
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a.alignment());
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c.alignment());
    prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c.alignment());
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
  // Operands that are rounded: the first of a product (a batch), and the second (weights, or a batch).
  core::Buffer<std::uint16_t> rounded_[2];
  std::int64_t rounded_elements_[2] = {};
};

}  // namespace

std::unique_ptr<MatrixProduct> make_cublas_product(core::DataType compute) {
  return std::make_unique<CublasProduct>(compute);
}

}  // namespace bert_hpc::ops
