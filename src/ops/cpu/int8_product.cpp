// Each thread quantizes the rows of its own part of the result, a block of them at a time, and multiplies them by all
// weights of its columns. A block's words and sums stay in the second-level cache, a panel of weights in the first.
#include "int8_product.hpp"

#if defined(BERT_HPC_AMX_KERNELS)
#include <cpuid.h>
#endif
#include <omp.h>

#include <algorithm>
#include <map>
#include <utility>

#include "../gemm.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "blocking.hpp"
#include "instruction_set.hpp"

namespace bert_hpc::ops {
namespace {

using cpu::divide_up;
using cpu::int8_block_columns;
using cpu::int8_block_words;
using cpu::Int8Kernels;
using cpu::Range;

/// A weight (out, in) in panels, with a scale and a sum of each output.
struct QuantizedWeight {
  Tensor<const float> values;
  core::Buffer<std::uint32_t> panels;
  core::Buffer<float> scales;
  core::Buffer<std::int32_t> sums;
};

/// Memory of one thread.
struct ThreadMemory {
  std::uint32_t* rows;
  std::int32_t* sums;
  float* scales;
  std::int32_t* zeros;
};

class CpuInt8Product final : public Int8Product {
 public:
  CpuInt8Product(std::unique_ptr<MatrixProduct> others, const Int8Kernels& kernels)
      : others_(std::move(others)), kernels_(kernels) {}

  std::string name() const override {
    return "8-bit integers (" + std::string(kernels_.name) + "), others " + others_->name();
  }
  bool rows_are_independent() const override { return others_->rows_are_independent(); }

  std::int64_t quantize(const core::ParameterStore& parameters, std::span<const Tensor<const float>> weights) override {
    parameters_ = &parameters;
    std::int64_t bytes = 0;
    for (const Tensor<const float>& w : weights) {
      const std::int64_t words = kernels_.words(w.columns), outputs = cpu::round_up(w.rows, kernels_.columns);
      core::require(w.columns <= cpu::longest_sum && w.contiguous(), "8-bit product: a weight of this shape");
      bytes += outputs * (words + 2) * static_cast<std::int64_t>(sizeof(std::uint32_t));
      longest_ = std::max(longest_, words);
      if (parameters.values().data() == nullptr) continue;
      QuantizedWeight& own = weights_[w.data];
      own.values = w;
      own.panels = core::Buffer<std::uint32_t>(outputs * words, core::MemoryKind::host);
      own.scales = core::Buffer<float>(outputs, core::MemoryKind::host);
      own.sums = core::Buffer<std::int32_t>(outputs, core::MemoryKind::host);
    }
    version_ = parameters.version() - 1;
    return bytes;
  }

  std::int64_t reserve(const ProductExtents& e) override {
    const std::int64_t threads = omp_get_max_threads();
    const std::int64_t needed = threads * thread_words();
    if (needed > memory_.size()) memory_ = core::Buffer<std::uint32_t>(needed, core::MemoryKind::host);
    return others_->reserve(e) + memory_.size() * static_cast<std::int64_t>(sizeof(std::uint32_t));
  }

  void forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) override {
    const auto found = weights_.find(w.data);
    // Relative positions are multiplied by a weight that begins with the rows of a quantized one.
    if (found == weights_.end() || w.rows != found->second.values.rows) return others_->forward(x, w, epilogue, y);
    if (version_ != parameters_->version()) renew();
    const Matrix& sum = epilogue.sum(y);
    detail::require_product_shapes(compute(), x, w, sum);
    core::require(sum.type == core::DataType::fp32 && y.type == core::DataType::fp32,
                  "8-bit product: a result that is not in fp32");
    core::require(w.columns == found->second.values.columns, "8-bit product: a weight of another shape");
    run(x, found->second, epilogue, y);
    if (epilogue.activation != Activation::none && epilogue.activation != Activation::gelu) activate(epilogue, y);
  }

 private:
  std::int64_t thread_words() const {
    return cpu::round_up(kernels_.block_rows * (longest_ + int8_block_columns + 2), 16);
  }
  ThreadMemory memory_of(std::int64_t thread) const {
    std::uint32_t* const begin = memory_.data() + thread * thread_words();
    auto* const sums = reinterpret_cast<std::int32_t*>(begin);
    std::uint32_t* const rows = begin + kernels_.block_rows * int8_block_columns;
    auto* const scales = reinterpret_cast<float*>(rows + kernels_.block_rows * longest_);
    return {rows, sums, scales, reinterpret_cast<std::int32_t*>(scales + kernels_.block_rows)};
  }

  void renew() {
    const core::DeviceAccess access;
    for (auto& [data, weight] : weights_) {
      const Tensor<const float>& w = weight.values;
      const std::int64_t panels = divide_up(w.rows, kernels_.columns);
      const std::int64_t panel_words = kernels_.words(w.columns) * kernels_.columns;
#pragma omp parallel for
      for (std::int64_t p = 0; p < panels; ++p) {
        const std::int64_t first = p * kernels_.columns;
        kernels_.pack_panel({.from = w.data + first * w.columns,
                             .stride = w.columns,
                             .outputs = std::min(kernels_.columns, w.rows - first),
                             .length = w.columns,
                             .to = weight.panels.data() + p * panel_words,
                             .scales = weight.scales.data() + first,
                             .sums = weight.sums.data() + first});
      }
    }
    version_ = parameters_->version();
  }

  void run(const ConstMatrix& x, const QuantizedWeight& w, const Epilogue& epilogue, const Matrix& y) {
    const std::int64_t m = y.rows, n = w.values.rows, k = w.values.columns;
    const core::CallScope call(core::DeviceCall::product, "8-bit product",
                               detail::product_work(m, n, k, 4, 1, 4, false));
    if (m == 0) return;
    core::require(memory_.size() > 0, "8-bit product: nothing was reserved");
    for (const void* operand : {x.data, static_cast<const void*>(epilogue.bias), static_cast<const void*>(y.data),
                                static_cast<const void*>(epilogue.pre.data)}) {
      core::require_device_memory(operand, "8-bit product");
    }
    const core::DeviceAccess access;
    const int most = static_cast<int>(memory_.size() / thread_words());
    const int threads = std::min(omp_get_max_threads(), most);
    if (threads == 1 || m * n * k < cpu::min_shared_work) return work(x, w, epilogue, y, 0, 1);
#pragma omp parallel num_threads(threads)
    work(x, w, epilogue, y, omp_get_thread_num(), omp_get_num_threads());
  }

  void work(const ConstMatrix& x, const QuantizedWeight& w, const Epilogue& epilogue, const Matrix& y,
            std::int64_t thread, std::int64_t threads) const {
    const std::int64_t outputs = w.values.rows;
    const cpu::Grid grid =
        cpu::grid_of(threads, divide_up(y.rows, kernels_.rows), divide_up(outputs, kernels_.columns));
    if (thread >= grid.rows * grid.columns) return;
    const Range rows = cpu::part_of(y.rows, kernels_.rows, thread / grid.columns, grid.rows);
    const Range columns = cpu::part_of(outputs, kernels_.columns, thread % grid.columns, grid.columns);
    if (columns.size() == 0) return;
    const std::int64_t blocks = divide_up(rows.size(), kernels_.block_rows);
    for (std::int64_t index = 0; index < blocks; ++index) {
      const Range block = cpu::part_of(rows.size(), kernels_.rows, index, blocks);
      multiply_block(x, w, epilogue, y, {rows.begin + block.begin, rows.begin + block.end}, columns, memory_of(thread));
    }
  }

  void multiply_block(const ConstMatrix& x, const QuantizedWeight& w, const Epilogue& epilogue, const Matrix& y,
                      Range rows, Range columns, const ThreadMemory& own) const {
    const Tensor<const float>& values = w.values;
    const std::int64_t words = kernels_.words(values.columns);
    kernels_.quantize({.from = static_cast<const float*>(x.row(rows.begin)),
                       .stride = x.stride,
                       .rows = rows.size(),
                       .length = values.columns,
                       .to = own.rows,
                       .words = words,
                       .scales = own.scales,
                       .zeros = own.zeros});
    for (std::int64_t begin = columns.begin; begin < columns.end; begin += int8_block_columns) {
      const std::int64_t end = std::min(columns.end, begin + int8_block_columns);
      for (std::int64_t k = 0; k < words; k += int8_block_words) {
        kernels_.multiply({.m = rows.size(),
                           .n = cpu::round_up(end - begin, kernels_.columns),
                           .k = std::min(int8_block_words, words - k),
                           .a = own.rows + k,
                           .a_stride = words,
                           .b = w.panels.data() + begin * words + k * kernels_.columns,
                           .b_stride = words * kernels_.columns,
                           .c = own.sums,
                           .c_stride = int8_block_columns,
                           .adds = k > 0});
      }
      finish_block(w, epilogue, y, rows, {begin, end}, own);
    }
  }

  void finish_block(const QuantizedWeight& w, const Epilogue& epilogue, const Matrix& y, Range rows, Range columns,
                    const ThreadMemory& own) const {
    const bool gelu = epilogue.activation == Activation::gelu;
    const Matrix& to = gelu ? y : epilogue.sum(y);
    const auto at = [&](const Matrix& matrix) { return static_cast<float*>(matrix.at(rows.begin, columns.begin)); };
    kernels_.finish({.c = own.sums,
                     .c_stride = int8_block_columns,
                     .rows = rows.size(),
                     .columns = columns.size(),
                     .row_scales = own.scales,
                     .row_zeros = own.zeros,
                     .column_scales = w.scales.data() + columns.begin,
                     .column_sums = w.sums.data() + columns.begin,
                     .bias = epilogue.bias == nullptr ? nullptr : epilogue.bias + columns.begin,
                     .y = at(to),
                     .y_stride = to.stride,
                     .pre = gelu ? at(epilogue.pre) : nullptr,
                     .pre_stride = epilogue.pre.stride});
  }

  std::unique_ptr<MatrixProduct> others_;
  const Int8Kernels& kernels_;
  const core::ParameterStore* parameters_ = nullptr;
  std::uint64_t version_ = 0;  // of the parameters that weights_ are quantized from
  std::map<const float*, QuantizedWeight> weights_;
  std::int64_t longest_ = 0;  // words of a row
  core::Buffer<std::uint32_t> memory_;
};

}  // namespace

namespace cpu {

#if defined(BERT_HPC_AMX_KERNELS)
namespace {

/// Whether this process may use tile registers and the processor multiplies bytes in them.
bool may_use_tiles_of_bytes() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned tiles_of_bytes = 1u << 25;
  return widest_instruction_set() == InstructionSet::x86_64_amx &&
         __get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) != 0 && (edx & tiles_of_bytes) != 0 &&
         x86_64_amx::int8_kernels_are_right();
}

}  // namespace
#endif

const Int8Kernels& fastest_int8_kernels() {
#if defined(BERT_HPC_X86_KERNELS)
  __builtin_cpu_init();
  // These match the compiler options of each set in CMakeLists.txt.
  const bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool v4 = v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
  if (v4 && __builtin_cpu_supports("avx512vnni")) {
#if defined(BERT_HPC_AMX_KERNELS)
    static const bool in_tiles = may_use_tiles_of_bytes();
    if (in_tiles) return x86_64_amx::int8_kernels();
#endif
    return x86_64_v4_vnni::int8_kernels();
  }
  if (v4) return x86_64_v4::int8_kernels();
  if (v3) return x86_64_v3::int8_kernels();
#endif
  return baseline::int8_kernels();
}

std::unique_ptr<Int8Product> make_int8_product(std::unique_ptr<MatrixProduct> others, const Int8Kernels& kernels) {
  return std::make_unique<CpuInt8Product>(std::move(others), kernels);
}

}  // namespace cpu

std::unique_ptr<Int8Product> make_int8_product(std::unique_ptr<MatrixProduct> others) {
  return cpu::make_int8_product(std::move(others), cpu::fastest_int8_kernels());
}

bool has_int8() {
  return true;
}

}  // namespace bert_hpc::ops
