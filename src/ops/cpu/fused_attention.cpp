// Fused attention on CPUs: tasks of (sequence, head), drawn by the threads from a counter, longest sequences first
// where a batch is ordered by length. A task writes only what is its own and computes alike on any thread, so results
// depend neither on the number of threads nor on the other sequences of a batch.
#include "fused_attention.hpp"

#include <atomic>
#include <cmath>
#include <string>

#include "../kernel.hpp"
#include "attention_task.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/core/error.hpp"

namespace bert_hpc::ops::cpu {
namespace {

AttentionKernels widest_kernels() {
#if defined(BERT_HPC_X86_KERNELS)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return x86_64_v4::attention_kernels();
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return x86_64_v3::attention_kernels();
#endif
  return baseline::attention_kernels();
}

/// What the tasks of one call share.
struct Call {
  const AttentionExtents& extents;
  const TokenRows &queries, &keys;
  const Dropout& dropout;
  Tensor<const float> q, k, v;  // (query rows, hidden), (key rows, hidden), (key rows, hidden)
  const float* out;             // (query rows, hidden)
  std::int64_t out_stride;
  const float* log_sum_exp;  // (heads, query rows)
  std::int64_t log_sum_exp_stride;

  AttentionTask task(std::int64_t sequence, std::int64_t head, float* scratch) const {
    const std::int64_t first_query = queries.offsets[sequence], first_key = keys.offsets[sequence];
    const std::int64_t column = head * extents.head_dim;
    const std::uint32_t threshold = dropout_threshold(dropout.probability);
    const std::uint64_t sample = threshold > 0 ? static_cast<std::uint64_t>(dropout.sample[sequence]) : 0;
    AttentionTask t{};
    t.queries = queries.offsets[sequence + 1] - first_query;
    t.keys = keys.offsets[sequence + 1] - first_key;
    t.head_dim = extents.head_dim;
    t.scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(extents.head_dim)));
    t.threshold = threshold;
    t.drop_scale = dropout_scale(threshold);
    t.c2 = static_cast<std::uint32_t>(sample);
    t.c3 = dropout.site | (static_cast<std::uint32_t>(sample >> 32) << 16);
    t.key0 = dropout.key0;
    t.key1 = dropout.key1;
    t.first_row = static_cast<std::uint32_t>((extents.first_head + head) << 20);
    t.position = threshold > 0 ? queries.position + first_query : nullptr;
    t.q = {q.row(first_query) + column, q.stride};
    t.k = {k.row(first_key) + column, k.stride};
    t.v = {v.row(first_key) + column, v.stride};
    // Forward writes these two, backward only reads them.
    t.out = {const_cast<float*>(out) + first_query * out_stride + column, out_stride};
    t.log_sum_exp = const_cast<float*>(log_sum_exp) + head * log_sum_exp_stride + first_query;
    t.scratch = scratch;
    return t;
  }
};

class FusedAttention : public Attention {
 public:
  explicit FusedAttention(const AttentionKernels& kernels) : kernels_(kernels) {}

  std::string name() const override { return std::string("fused, ") + kernels_.instruction_set; }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim) override {
    const std::int64_t floats = (kernels_.scratch_floats(max_length, head_dim) + 1023) / 1024 * 1024 + 16;
    const std::int64_t workers = Kokkos::DefaultHostExecutionSpace().concurrency();
    if (floats > worker_floats_ || workers > workers_) {
      worker_floats_ = std::max(floats, worker_floats_);
      workers_ = std::max(workers, workers_);
      scratch_ = core::Buffer<float>();  // the old before the new
      scratch_ = core::Buffer<float>(worker_floats_ * workers_, core::MemoryKind::host);
    }
    return scratch_.size() * static_cast<std::int64_t>(sizeof(float));
  }

  void forward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys, const Dropout& dropout,
               Tensor<const float> q, Tensor<const float> k, Tensor<const float> v, Tensor<float> out,
               Tensor<float> log_sum_exp) override {
    const Call call{extents,          queries,           keys, dropout, q, k, v, out.data, out.stride,
                    log_sum_exp.data, log_sum_exp.stride};
    require_on_device(call);
    for_tasks("bert_hpc::ops::fused_attention_forward", extents,
              [&](std::int64_t sequence, std::int64_t head, float* scratch) {
                kernels_.forward(call.task(sequence, head, scratch));
              });
  }

  void backward(const AttentionExtents& extents, const TokenRows& queries, const TokenRows& keys,
                const Dropout& dropout, Tensor<const float> q, Tensor<const float> k, Tensor<const float> v,
                Tensor<const float> out, Tensor<const float> log_sum_exp, Tensor<const float> d_out, Tensor<float> d_q,
                Tensor<float> d_k, Tensor<float> d_v) override {
    const Call call{extents,          queries,           keys, dropout, q, k, v, out.data, out.stride,
                    log_sum_exp.data, log_sum_exp.stride};
    require_on_device(call);
    for (const float* gradient : {d_out.data, static_cast<const float*>(d_q.data), static_cast<const float*>(d_k.data),
                                  static_cast<const float*>(d_v.data)}) {
      core::require_device_memory(gradient, "attention");
    }
    for_tasks("bert_hpc::ops::fused_attention_backward", extents,
              [&](std::int64_t sequence, std::int64_t head, float* scratch) {
                const std::int64_t query = queries.offsets[sequence], key = keys.offsets[sequence];
                const std::int64_t column = head * extents.head_dim;
                kernels_.backward({call.task(sequence, head, scratch),
                                   {d_out.row(query) + column, d_out.stride},
                                   {d_q.row(query) + column, d_q.stride},
                                   {d_k.row(key) + column, d_k.stride},
                                   {d_v.row(key) + column, d_v.stride}});
              });
  }

 private:
  static void require_on_device(const Call& call) {
    for (const void* operand :
         {static_cast<const void*>(call.q.data), static_cast<const void*>(call.k.data),
          static_cast<const void*>(call.v.data), static_cast<const void*>(call.out),
          static_cast<const void*>(call.log_sum_exp), static_cast<const void*>(call.queries.offsets),
          static_cast<const void*>(call.keys.offsets), static_cast<const void*>(call.dropout.sample)}) {
      core::require_device_memory(operand, "attention");
    }
  }

  /// run(sequence, head, scratch) for every pair; one work item per thread, which takes pairs until none is left.
  template <class Run>
  void for_tasks(const char* label, const AttentionExtents& extents, const Run& run) {
    core::require(kernels_.scratch_floats(extents.max_length, extents.head_dim) <= worker_floats_,
                  "attention: sequences are longer than reserve() was told");
    const std::int64_t tasks = extents.sequences * extents.heads;
    std::atomic<std::int64_t> next{0};
    const std::int64_t workers = std::min<std::int64_t>(workers_, tasks);
    using HostRange = Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace, Kokkos::IndexType<std::int64_t>>;
    if (workers == 0) return;
    const core::DeviceAccess access;
    kernel::run(label, HostRange(0, workers), [&](std::int64_t worker) {
      float* scratch = scratch_.data() + worker * worker_floats_;
      for (std::int64_t t; (t = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) {
        const std::int64_t from_the_end = tasks - 1 - t;
        run(from_the_end / extents.heads, from_the_end % extents.heads, scratch);
      }
    });
  }

  AttentionKernels kernels_;
  core::Buffer<float> scratch_;  // (workers, worker_floats)
  std::int64_t workers_ = 0, worker_floats_ = 0;
};

}  // namespace

std::unique_ptr<Attention> make_fused_attention(InstructionSet set) {
  return std::make_unique<FusedAttention>(set == InstructionSet::widest ? widest_kernels()
                                                                        : baseline::attention_kernels());
}

}  // namespace bert_hpc::ops::cpu
