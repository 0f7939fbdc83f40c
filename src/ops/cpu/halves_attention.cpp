#include "halves_attention.hpp"

#include <string>

#include "attention_call.hpp"
#include "distance_row.hpp"
#include "head_tasks.hpp"

namespace bert_hpc::ops::cpu {
namespace {

HeadHalves halves_of(const ConstMatrix& x) {
  return {static_cast<const std::uint16_t*>(x.data), x.stride};
}
HeadHalvesOut halves_of(const Matrix& x) {
  return {static_cast<std::uint16_t*>(x.data), x.stride};
}

class HalvesAttention : public Attention {
 public:
  explicit HalvesAttention(const HalvesAttentionKernels& kernels) : kernels_(kernels) {}

  std::string name() const override { return std::string("fused, ") + kernels_.instruction_set; }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim, bool) override {
    return tasks_.reserve(scratch_floats(max_length, head_dim));
  }

  void forward(const AttentionInputs& in, const AttentionResults& results) override {
    require_operands(in, results, core::DataType::bf16);
    for_tasks({"bert_hpc::ops::fused_attention_forward", attention_work(in, 2, 2, 2)}, in.extents,
              [&](std::int64_t sequence, std::int64_t head, float* scratch) {
                HalvesAttentionTask task = with_operands(in, results, sequence, head, scratch);
                task.bias = bias_of(in, task, head, bias_in(scratch, in.extents));
                kernels_.forward(task);
              });
  }

  void backward(const AttentionInputs& in, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    require_operands(in, results, core::DataType::bf16);
    require_gradients(d_out, gradients);
    for_tasks({"bert_hpc::ops::fused_attention_backward", attention_work(in, 5, 4, 4)}, in.extents,
              [&](std::int64_t sequence, std::int64_t head, float* scratch) {
                const auto part = [&](const auto& all, const TokenRows& rows) {
                  return halves_of(part_of(all, rows, sequence, in.extents, head));
                };
                HalvesAttentionTask task = with_operands(in, results, sequence, head, scratch);
                float* const distances = bias_in(scratch, in.extents);
                task.bias = bias_of(in, task, head, distances);
                const DistanceRow sums(distances + DistanceRow::floats(task.keys), task.keys);
                const bool sums_distances = gradients.d_bias.size() > 0;
                if (sums_distances) sums.clear();
                kernels_.backward({task, part(d_out, in.queries), part(gradients.d_q, in.queries),
                                   part(gradients.d_k, in.keys), part(gradients.d_v, in.keys),
                                   sums_distances ? sums.center() : nullptr});
                if (sums_distances) {
                  sums.store(in.keys.offsets[sequence], 1.0f / task.scale, gradients.d_bias.row(head));
                }
              });
  }

 private:
  /// Scratch of one task: first that of the kernels, then two rows of the position bias.
  std::int64_t scratch_floats(std::int64_t max_length, std::int64_t head_dim) const {
    return kernels_.scratch_floats(max_length, head_dim) + 2 * DistanceRow::floats(max_length);
  }
  float* bias_in(float* scratch, const AttentionExtents& extents) const {
    return scratch + kernels_.scratch_floats(extents.max_length, extents.head_dim);
  }

  static HalvesAttentionTask with_operands(const AttentionInputs& in, const AttentionResults& results,
                                           std::int64_t sequence, std::int64_t head, float* scratch) {
    const auto part = [&](const auto& all, const TokenRows& rows) {
      return halves_of(part_of(all, rows, sequence, in.extents, head));
    };
    HalvesAttentionTask task{};
    static_cast<AttentionHead&>(task) = head_of(in, results, sequence, head, scratch);
    task.q = part(in.q, in.queries);
    task.k = part(in.k, in.keys);
    task.v = part(in.v, in.keys);
    task.out = part(results.out, in.queries);
    return task;
  }

  template <class Run>
  void for_tasks(const kernel::Label& label, const AttentionExtents& extents, const Run& run) {
    tasks_.for_all(label, extents, scratch_floats(extents.max_length, extents.head_dim), run);
  }

  HalvesAttentionKernels kernels_;
  HeadTasks tasks_;
};

}  // namespace

std::unique_ptr<Attention> make_halves_attention(const HalvesAttentionKernels& kernels) {
  return std::make_unique<HalvesAttention>(kernels);
}

}  // namespace bert_hpc::ops::cpu
