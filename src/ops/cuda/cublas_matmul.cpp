// In reproducible mode an algorithm is chosen once per kind of product, for a nominal number of rows, and without a
// split of the inner dimension: what a row gives then depends on that row and on the kernel, which is the same whatever
// the batch, and nothing is searched for when a batch brings a new number of rows.
//
// Otherwise there is one for each bucket of rows (algorithm_choice.hpp): what was fastest of the library's suggestions
// where tune() has tried them, else its first one. Sums may be split then, which gradients of weights gain most from:
// their results are a few tiles, and their inner dimension is the batch.
#include "cublas_matmul.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "../../core/cuda/check_cuda.hpp"
#include "../gemm.hpp"
#include "bert_hpc/core/call_count.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops {
namespace {

constexpr std::int64_t rows_of_all = 4096;  // that stand for any number in reproducible mode
constexpr int max_candidates = 8, rounds = 3;

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

/// Describes `count` matrices, each op(x) (rows, columns). A row-major matrix is a column-major one of its transpose,
/// so that rows and columns are exchanged, unless x is transposed.
void init(cublasLtMatrixLayoutOpaque_t& layout, std::int64_t rows, std::int64_t columns, const Matmul::Operand& x,
          std::int64_t count) {
  if (x.transposed) std::swap(rows, columns);
  check_cublas(cublasLtMatrixLayoutInit(&layout, cuda_type(x), static_cast<std::uint64_t>(columns),
                                        static_cast<std::uint64_t>(rows), x.stride),
               "cublasLtMatrixLayoutInit");
  if (count == 1) return;
  const auto matrices = static_cast<std::int32_t>(count);
  check_cublas(
      cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &matrices, sizeof matrices),
      "cublasLtMatrixLayoutSetAttribute");
  check_cublas(
      cublasLtMatrixLayoutSetAttribute(&layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &x.step, sizeof x.step),
      "cublasLtMatrixLayoutSetAttribute");
}

/// How sums may be split. Parts are added in float: in the result's memory only if that holds floats.
std::uint32_t reductions(const Matmul& product, bool reproducible) {
  if (reproducible) return CUBLASLT_REDUCTION_SCHEME_NONE;
  const std::uint32_t in_place = product.c.type == core::DataType::fp32 ? CUBLASLT_REDUCTION_SCHEME_INPLACE : 0;
  return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | in_place;
}

[[noreturn]] void fail(cublasStatus_t status, const std::string& operation) {
  throw core::Error(core::ExitCode::internal,
                    "cuBLASLt failed in " + operation + ": " + cublasLtGetStatusString(status) + ".");
}

/// For messages.
std::string text_of(const Matmul& p) {
  const auto operand = [](const char* name, const Matmul::Operand& x) {
    return std::string(", ") + name + (x.eight ? " fp8" : core::name_of(x.type)) + (x.transposed ? " transposed" : "") +
           " with rows of " + std::to_string(x.stride);
  };
  return (p.count > 1 ? std::to_string(p.count) + " of " : "") + "m " + std::to_string(p.m) + ", n " +
         std::to_string(p.n) + ", k " + std::to_string(p.k) + operand("a ", p.a) + operand("b ", p.b) +
         operand("c ", p.c) + (p.beta != 0.0f ? ", added" : "") + (p.bias != nullptr ? ", with bias" : "") +
         (p.sums_of_a != nullptr ? ", with sums" : "");
}

core::CallWork work_of(const Matmul& p) {
  const auto bytes = [](const Matmul::Operand& x) { return x.eight ? std::int64_t{1} : core::bytes_of(x.type); };
  return detail::product_work(p.count * p.m, p.n, p.k, bytes(p.a), bytes(p.b), bytes(p.c), p.beta != 0.0f);
}

}  // namespace

void check_cublas(cublasStatus_t status, const char* operation) {
  if (status != CUBLAS_STATUS_SUCCESS) fail(status, operation);
}

/// A product with its description in the library's terms, which wants it writable.
struct CublasMatmul::Call {
  Call(const Matmul& matmul, bool tf32) : product(matmul) {
    const bool rounds_operands = tf32 && !product.a.eight && product.a.type == core::DataType::fp32;
    check_cublas(cublasLtMatmulDescInit(
                     &description, rounds_operands ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F),
                 "cublasLtMatmulDescInit");
    const cublasOperation_t first = product.b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second = product.a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    set(description, CUBLASLT_MATMUL_DESC_TRANSA, first);
    set(description, CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (product.a.eight) {
      set(description, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, product.b.inverse);
      set(description, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, product.a.inverse);
      set(description, CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{product.fast_sums});
    }
    if (product.bias != nullptr) {
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
      set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.bias);
    } else if (product.sums_of_a != nullptr) {  // the library's B is a
      set(description, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BGRADB);
      set(description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product.sums_of_a);
    }
    init(a, product.m, product.k, product.a, product.count);
    init(b, product.k, product.n, product.b, product.count);
    init(c, product.m, product.n, product.c, product.count);
  }

  const Matmul& product;
  mutable cublasLtMatmulDescOpaque_t description;
  mutable cublasLtMatrixLayoutOpaque_t a, b, c;
};

CublasMatmul::~CublasMatmul() {
  if (handle_ != nullptr) cublasLtDestroy(handle_);
}

void CublasMatmul::prepare() {
  if (handle_ != nullptr) return;
  check_cublas(cublasLtCreate(&handle_), "cublasLtCreate");
  workspace_ = core::Buffer<unsigned char>(static_cast<std::int64_t>(workspace_bytes));
}

std::int64_t CublasMatmul::nominal_rows(const Matmul& product) const {
  return reproducible_ ? rows_of_all : row_bucket(product.rows());
}

bool CublasMatmul::offers(const Matmul& product) {
  prepare();
  const MatmulKey key = key_of(product, nominal_rows(product));
  if (algorithms_.contains(key)) return true;
  if (missing_.contains(key)) return false;
  const Matmul nominal = with_rows(product, nominal_rows(product));
  const std::vector<cublasLtMatmulAlgo_t> found = suggestions(Call(nominal, tf32_), 1);
  if (found.empty()) {
    missing_.insert(key);
  } else {
    algorithms_.emplace(key, found.front());
  }
  return !found.empty();
}

void CublasMatmul::run(const Matmul& product) {
  prepare();
  const MatmulKey key = key_of(product, nominal_rows(product));
  auto found = algorithms_.find(key);
  if (found == algorithms_.end()) {
    const Matmul nominal = with_rows(product, nominal_rows(product));
    found = algorithms_.emplace(key, candidates(Call(nominal, tf32_), 1).front()).first;
  }
  const Call call(product, tf32_);
  cublasStatus_t status = launch(call, found->second);
  // An algorithm that was suggested or timed for the bucket's rows may not do for these: another is kept from now on.
  // In reproducible mode that would change bits with the batch, so it is an error.
  if ((status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) && !reproducible_) {
    core::clear_last_error();  // handled here
    found->second = candidates(call, 1).front();
    status = launch(call, found->second);
  }
  if (status != CUBLAS_STATUS_SUCCESS) fail(status, "cublasLtMatmul: " + text_of(product));
}

void CublasMatmul::tune(const Matmul& product) {
  if (reproducible_) return;
  prepare();
  const MatmulKey key = key_of(product, nominal_rows(product));
  if (algorithms_.contains(key)) return;
  const Call call(product, tf32_);
  const std::vector<cublasLtMatmulAlgo_t> all = suggestions(call, max_candidates);
  if (all.empty()) {
    if (!product.has_epilogue()) fail(CUBLAS_STATUS_NOT_SUPPORTED, "tuning: " + text_of(product));
    missing_.insert(key);
    return;
  }
  std::vector<float> times;
  for (const cublasLtMatmulAlgo_t& algorithm : all) times.push_back(milliseconds(call, algorithm));
  const std::size_t chosen = choose_algorithm(times);
  algorithms_.emplace(key, all[chosen < all.size() ? chosen : 0]);
}

cublasStatus_t CublasMatmul::launch(const Call& call, const cublasLtMatmulAlgo_t& algorithm) const {
  const Matmul& p = call.product;
  const core::CallScope scope(core::DeviceCall::product, "cublasLtMatmul", work_of(p));
  return cublasLtMatmul(handle_, &call.description, &p.alpha, p.b.data, &call.b, p.a.data, &call.a, &p.beta, p.c.data,
                        &call.c, p.c.data, &call.c, &algorithm, workspace_.data(), workspace_bytes,
                        static_cast<cudaStream_t>(core::kernel_stream()));
}

/// The least of a few rounds; NaN if the algorithm does not work.
float CublasMatmul::milliseconds(const Call& call, const cublasLtMatmulAlgo_t& algorithm) const {
  const auto stream = static_cast<cudaStream_t>(core::kernel_stream());
  cudaEvent_t begin = nullptr, end = nullptr;
  bool works = cudaEventCreate(&begin) == cudaSuccess && cudaEventCreate(&end) == cudaSuccess;
  works = works && launch(call, algorithm) == CUBLAS_STATUS_SUCCESS;  // loads the kernel
  float least = INFINITY;
  for (int round = 0; works && round < rounds; ++round) {
    float time = 0.0f;
    works = cudaEventRecord(begin, stream) == cudaSuccess && launch(call, algorithm) == CUBLAS_STATUS_SUCCESS &&
            cudaEventRecord(end, stream) == cudaSuccess && cudaEventSynchronize(end) == cudaSuccess &&
            cudaEventElapsedTime(&time, begin, end) == cudaSuccess;
    least = std::min(least, time);
  }
  if (begin != nullptr) cudaEventDestroy(begin);
  if (end != nullptr) cudaEventDestroy(end);
  if (!works) core::clear_last_error();  // another candidate is taken
  return works ? least : NAN;
}

std::vector<cublasLtMatmulAlgo_t> CublasMatmul::candidates(const Call& call, int most) const {
  std::vector<cublasLtMatmulAlgo_t> algorithms = suggestions(call, most);
  if (algorithms.empty()) {
    fail(CUBLAS_STATUS_NOT_SUPPORTED, "cublasLtMatmulAlgoGetHeuristic: " + text_of(call.product));
  }
  return algorithms;
}

std::vector<cublasLtMatmulAlgo_t> CublasMatmul::suggestions(const Call& call, int most) const {
  const Matmul& product = call.product;
  cublasLtMatmulPreferenceOpaque_t preference;
  check_cublas(cublasLtMatmulPreferenceInit(&preference), "cublasLtMatmulPreferenceInit");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, reductions(product, reproducible_));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, product.b.alignment());
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, product.a.alignment());
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, product.c.alignment());
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, product.result_alignment());
  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(handle_, &call.description, &call.b, &call.a, &call.c,
                                                               &call.c, &preference, most, results.data(), &found);
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return {};
  check_cublas(status, "cublasLtMatmulAlgoGetHeuristic");
  std::vector<cublasLtMatmulAlgo_t> algorithms;
  for (int i = 0; i < found; ++i) {
    const cublasLtMatmulHeuristicResult_t& result = results[static_cast<std::size_t>(i)];
    if (result.state == CUBLAS_STATUS_SUCCESS) algorithms.push_back(result.algo);
  }
  return algorithms;
}

}  // namespace bert_hpc::ops
