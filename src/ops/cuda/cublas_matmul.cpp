// An algorithm is chosen once per kind of product, for a nominal number of rows, and without a split of the inner
// dimension: what a row gives then depends on that row and on the kernel, which is the same whatever the batch, and
// nothing is searched for when a batch brings a new number of rows.
#include "cublas_matmul.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops {
namespace {

constexpr std::int64_t nominal_rows = 4096;

/// The largest power of two up to 16 that divides an address or a stride in bytes: what vector loads may count on.
std::uint32_t alignment_of(std::uint64_t bytes) {
  std::uint32_t alignment = 16;
  while (alignment > 2 && bytes % alignment != 0) alignment /= 2;
  return alignment;
}

cudaDataType_t cuda_type(const Matmul::Operand& x) {
  if (x.eight) return *x.eight == core::Float8::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
  const core::DataType type = x.type;
  return type == core::DataType::bf16 ? CUDA_R_16BF : type == core::DataType::fp16 ? CUDA_R_16F : CUDA_R_32F;
}

template <class T>
void set(cublasLtMatmulDescOpaque_t& product, cublasLtMatmulDescAttributes_t attribute, const T& value) {
  check_cublas(cublasLtMatmulDescSetAttribute(&product, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}

template <class T>
void prefer(cublasLtMatmulPreferenceOpaque_t& preference, cublasLtMatmulPreferenceAttributes_t attribute,
            const T& value) {
  check_cublas(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

void describe(cublasLtMatmulDescOpaque_t& description, const Matmul& product) {
  check_cublas(cublasLtMatmulDescInit(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescInit");
  const cublasOperation_t first = product.b.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = product.a.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
  set(description, CUBLASLT_MATMUL_DESC_TRANSA, first);
  set(description, CUBLASLT_MATMUL_DESC_TRANSB, second);
  if (product.a.eight) {
    set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b.inverse);
    set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a.inverse);
  }
  if (product.bias == nullptr) return;
  set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
  set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
}

struct Layouts {
  explicit Layouts(const Matmul& p) {
    init(a, p.m, p.k, p.a);
    init(b, p.k, p.n, p.b);
    init(c, p.m, p.n, p.c);
  }
  /// Of op(x) (rows, columns): stored row-major (rows, columns), or turned, it is column-major the other way round.
  static void init(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns,
                   const Matmul::Operand& x) {
    if (x.turned) std::swap(rows, columns);
    check_cublas(cublasLtMatrixLayoutInit(&layout, cuda_type(x), static_cast<std::uint64_t>(columns),
                                          static_cast<std::uint64_t>(rows), x.stride),
                 "cublasLtMatrixLayoutInit");
  }
  cublasLtMatrixLayoutOpaque_t a, b, c;
};

}  // namespace

void check_cublas(cublasStatus_t status, const char* operation) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw core::Error(core::ExitCode::internal,
                    std::string("cuBLASLt failed in ") + operation + ": " + cublasLtGetStatusString(status) + ".");
}

std::uint32_t Matmul::Operand::alignment() const {
  return std::min(alignment_of(reinterpret_cast<std::uintptr_t>(data)),
                  alignment_of(static_cast<std::uint64_t>(stride * (eight ? 1 : core::bytes_of(type)))));
}

CublasMatmul::~CublasMatmul() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

void CublasMatmul::prepare() {
  if (handle_ != nullptr) return;
  check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
  workspace_ = core::Buffer<unsigned char>(static_cast<std::int64_t>(workspace_bytes));
}

CublasMatmul::Key CublasMatmul::key_of(const Matmul& p) {
  const int kind = (p.a.turned ? 1 : 0) + (p.b.turned ? 2 : 0) + (p.beta != 0.0f ? 4 : 0) +
                   (p.c.type != core::DataType::fp32 ? 8 : 0) + (p.bias != nullptr ? 16 : 0) + (p.a.eight ? 32 : 0) +
                   (p.a.eight == core::Float8::e5m2 ? 64 : 0) + (p.sums_over_padded_rows ? 128 : 0);
  return {p.n, p.sums_over_rows() ? p.m : p.k, kind, p.a.alignment(), p.b.alignment(), p.c.alignment()};
}

void CublasMatmul::run(const Matmul& product) {
  prepare();
  const Key key = key_of(product);
  auto found = algorithms_.find(key);
  if (found == algorithms_.end()) found = algorithms_.emplace(key, choose(product)).first;
  cublasLtMatmulDescOpaque_t description;
  describe(description, product);
  Layouts layouts(product);
  const float one = 1.0f;
  check_cublas(cublasLtMatmul(handle_, &description, &one, product.b.data, &layouts.b, product.a.data, &layouts.a,
                              &product.beta, product.c.data, &layouts.c, product.c.data, &layouts.c, &found->second,
                              workspace_.data(), workspace_bytes, static_cast<cudaStream_t>(core::kernel_stream())),
               "cublasLtMatmul");
}

cublasLtMatmulAlgo_t CublasMatmul::choose(Matmul product) const {
  (product.sums_over_rows() ? product.k : product.m) = nominal_rows;
  cublasLtMatmulDescOpaque_t description;
  describe(description, product);
  Layouts layouts(product);
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  const std::uint32_t no_split = CUBLASLT_REDUCTION_SCHEME_NONE;
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, no_split);
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product.b.alignment());
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product.a.alignment());
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product.c.alignment());
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, product.c.alignment());
  cublasLtMatmulHeuristicResult_t result{};
  int found = 0;
  check_cublas(cublasLtMatmulAlgoGetHeuristic(handle_, &description, &layouts.b, &layouts.a, &layouts.c, &layouts.c,
                                              &preference, 1, &result, &found),
               "cublasLtMatmulAlgoGetHeuristic");
  core::require(found > 0, "cuBLASLt knows no algorithm for a product of a linear layer");
  return result.algo;
}

}  // namespace bert_hpc::ops
