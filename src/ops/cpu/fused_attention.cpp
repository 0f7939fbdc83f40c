// Fused attention on CPUs. Rows of 16-bit types are converted to floats in a task's scratch, where they stay in cache,
// and results are rounded from there. Rows of bf16 that are only multiplied as pairs are read in place.
#include "fused_attention.hpp"

#include <algorithm>
#include <initializer_list>
#include <string>

#include "attention_call.hpp"
#include "attention_task.hpp"
#include "distance_row.hpp"
#include "halves_attention.hpp"
#include "head_tasks.hpp"

namespace bert_hpc::ops::cpu {
namespace {

AttentionKernels kernels_of([[maybe_unused]] InstructionSet set) {
#if defined(BERT_HPC_X86_KERNELS)
  if (set == InstructionSet::x86_64_v4_bf16 || set == InstructionSet::x86_64_amx)
    return x86_64_v4_bf16::attention_kernels();
  if (set == InstructionSet::x86_64_v4) return x86_64_v4::attention_kernels();
  if (set == InstructionSet::x86_64_v3) return x86_64_v3::attention_kernels();
#endif
  return baseline::attention_kernels();
}

template <class T>
void widen(const Tensor<const T>& from, float* to) {
  for (std::int64_t i = 0; i < from.rows; ++i) {
    const T* row = from.row(i);
    float* out = to + i * from.columns;
#pragma omp simd
    for (std::int64_t j = 0; j < from.columns; ++j) out[j] = row[j];
  }
}

template <class T>
void narrow(const float* from, const Tensor<T>& to) {
  for (std::int64_t i = 0; i < to.rows; ++i) {
    const float* row = from + i * to.columns;
    T* out = to.row(i);
#pragma omp simd
    for (std::int64_t j = 0; j < to.columns; ++j) out[j] = row[j];
  }
}

/// Rows of bf16 as words of two elements.
HeadPairs pairs_of(const ConstMatrix& x) {
  return {static_cast<const float*>(x.data), x.stride / 2};
}

/// Operands of a task as floats: in place, or as copies in the task's scratch.
class Operands {
 public:
  explicit Operands(float* scratch) : free_(scratch) {}

  HeadView read(const ConstMatrix& x) {
    if (x.type == core::DataType::fp32) return {static_cast<const float*>(x.data), x.stride};
    float* copy = take(x.size());
    core::with_type(x.type, [&]<class T>() { widen<T>(x.as<T>(), copy); });
    return {copy, x.columns};
  }
  /// Memory for a result; finish() rounds it to its destination.
  HeadViewOut write(const Matrix& x) {
    if (x.type == core::DataType::fp32) return {static_cast<float*>(x.data), x.stride};
    results_[count_] = {x, take(x.size())};
    return {results_[count_++].from, x.columns};
  }
  void finish() const {
    for (int i = 0; i < count_; ++i) {
      const Result& r = results_[i];
      core::with_type(r.to.type, [&]<class T>() { narrow<T>(r.from, r.to.as<T>()); });
    }
  }
  /// Size of a task's copies in floats.
  static std::int64_t floats(std::int64_t rows, std::int64_t head_dim) {
    return 8 * ((rows * head_dim + 15) / 16 * 16);
  }

 private:
  struct Result {
    Matrix to;
    float* from;
  };

  float* take(std::int64_t count) {
    float* const begin = free_;
    free_ += (count + 15) / 16 * 16;
    return begin;
  }

  float* free_;
  Result results_[3];
  int count_ = 0;
};

class FusedAttention : public Attention {
 public:
  FusedAttention(const AttentionKernels& kernels, core::DataType type) : kernels_(kernels), type_(type) {}

  std::string name() const override { return std::string("fused, ") + kernels_.instruction_set; }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim, bool) override {
    return tasks_.reserve(scratch_floats(max_length, head_dim));
  }

  void forward(const AttentionInputs& in, const AttentionResults& results) override {
    require_operands(in, results, type_);
    const bool pairs = reads_pairs(in.extents, {in.q, in.k});
    for_tasks({"bert_hpc::ops::fused_attention_forward", attention_work(in, 2, 2, 2)}, in.extents,
              [&](std::int64_t sequence, std::int64_t head, float* scratch) {
                Operands operands(copies_in(scratch, in.extents));
                AttentionTask task =
                    with_operands(in, results, sequence, head, scratch, operands, pairs, Direction::forward);
                task.bias = bias_of(in, task, head, bias_in(scratch, in.extents));
                task.out = operands.write(part_of(results.out, in.queries, sequence, in.extents, head));
                kernels_.forward(task);
                operands.finish();
              });
  }

  void backward(const AttentionInputs& in, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    require_operands(in, results, type_);
    require_gradients(d_out, gradients);
    const bool pairs = reads_pairs(in.extents, {in.q, in.k, in.v, d_out});
    for_tasks({"bert_hpc::ops::fused_attention_backward", attention_work(in, 5, 4, 4)}, in.extents,
              [&](std::int64_t sequence, std::int64_t head, float* scratch) {
                Operands operands(copies_in(scratch, in.extents));
                AttentionTask task =
                    with_operands(in, results, sequence, head, scratch, operands, pairs, Direction::backward);
                const ConstMatrix out = results.out;
                const HeadView result = operands.read(part_of(out, in.queries, sequence, in.extents, head));
                task.out = {const_cast<float*>(result.data), result.stride};  // only read
                float* const distances = bias_in(scratch, in.extents);
                task.bias = bias_of(in, task, head, distances);
                const DistanceRow sums(distances + DistanceRow::floats(task.keys), task.keys);
                const bool sums_distances = gradients.d_bias.size() > 0;
                if (sums_distances) sums.clear();
                const ConstMatrix d_out_part = part_of(d_out, in.queries, sequence, in.extents, head);
                kernels_.backward({task, operands.read(d_out_part), pairs ? pairs_of(d_out_part) : HeadPairs{},
                                   operands.write(part_of(gradients.d_q, in.queries, sequence, in.extents, head)),
                                   operands.write(part_of(gradients.d_k, in.keys, sequence, in.extents, head)),
                                   operands.write(part_of(gradients.d_v, in.keys, sequence, in.extents, head)),
                                   sums_distances ? sums.center() : nullptr});
                operands.finish();
                if (sums_distances) {
                  sums.store(in.keys.offsets[sequence], 1.0f / task.scale, gradients.d_bias.row(head));
                }
              });
  }

 private:
  /// Scratch of one task: first that of the kernels, then two rows of the position bias, then the copies.
  std::int64_t scratch_floats(std::int64_t max_length, std::int64_t head_dim) const {
    const std::int64_t copies = type_ == core::DataType::fp32 ? 0 : Operands::floats(max_length, head_dim);
    return kernels_floats(max_length, head_dim) + 2 * DistanceRow::floats(max_length) + copies;
  }
  std::int64_t kernels_floats(std::int64_t max_length, std::int64_t head_dim) const {
    return (kernels_.scratch_floats(max_length, head_dim) + 15) / 16 * 16;
  }
  float* copies_in(float* scratch, const AttentionExtents& extents) const {
    return bias_in(scratch, extents) + 2 * DistanceRow::floats(extents.max_length);
  }
  float* bias_in(float* scratch, const AttentionExtents& extents) const {
    return scratch + kernels_floats(extents.max_length, extents.head_dim);
  }
  enum class Direction { forward, backward };

  /// Whether all operands have rows of whole pairs, for kernels that multiply pairs.
  bool reads_pairs(const AttentionExtents& extents, std::initializer_list<ConstMatrix> operands) const {
    return kernels_.multiplies_pairs && type_ == core::DataType::bf16 && extents.head_dim % 2 == 0 &&
           std::all_of(operands.begin(), operands.end(), [](const ConstMatrix& x) { return x.stride % 2 == 0; });
  }

  static AttentionTask with_operands(const AttentionInputs& in, const AttentionResults& results, std::int64_t sequence,
                                     std::int64_t head, float* scratch, Operands& operands, bool pairs,
                                     Direction direction) {
    AttentionTask task{};
    static_cast<AttentionHead&>(task) = head_of(in, results, sequence, head, scratch);
    const ConstMatrix q = part_of(in.q, in.queries, sequence, in.extents, head);
    const ConstMatrix k = part_of(in.k, in.keys, sequence, in.extents, head);
    const ConstMatrix v = part_of(in.v, in.keys, sequence, in.extents, head);
    if (pairs) {
      task.q_pairs = pairs_of(q);
      task.k_pairs = pairs_of(k);
      task.v_pairs = pairs_of(v);
    }
    // Operands that only gemms of pairs read need no floats.
    if (!pairs || direction == Direction::backward) {
      task.q = operands.read(q);
      task.k = operands.read(k);
    }
    if (!pairs || direction == Direction::forward) task.v = operands.read(v);
    return task;
  }

  template <class Run>
  void for_tasks(const kernel::Label& label, const AttentionExtents& extents, const Run& run) {
    tasks_.for_all(label, extents, scratch_floats(extents.max_length, extents.head_dim), run);
  }

  AttentionKernels kernels_;
  core::DataType type_;
  HeadTasks tasks_;
};

}  // namespace

std::unique_ptr<Attention> make_fused_attention(InstructionSet set, core::DataType type) {
#if defined(BERT_HPC_AMX_KERNELS)
  if (set == InstructionSet::x86_64_amx && type == core::DataType::bf16) {
    return make_halves_attention(x86_64_amx::attention_kernels());
  }
#endif
  return std::make_unique<FusedAttention>(kernels_of(set), type);
}

}  // namespace bert_hpc::ops::cpu
