// Attention as programs without a fused kernel compute it, for comparison: matrix products of whole sequences, between
// them passes over the scores, which lie in memory. A thread holds the scores of one sequence and head at a time.
// Backward computes them again from the rows' log-sum-exps.
#include "unfused_attention.hpp"

#include <algorithm>
#include <string>

#include "distance_row.hpp"
#include "head_product.hpp"
#include "score_rows.hpp"

namespace bert_hpc::ops::cpu {
namespace {

/// Scratch of a task: two matrices of scores, then that of the products, then two rows of the position bias.
struct Scratch {
  Scratch(const TileKernels& kernels, core::DataType type, std::int64_t length, std::int64_t head_dim)
      : scores(rounded_up(length * length)),
        packed(rounded_up(std::max({scratch_floats(kernels, length, length, head_dim, false, rounds(type), 1),
                                    scratch_floats(kernels, length, head_dim, length, false, rounds(type), 1),
                                    scratch_floats(kernels, length, head_dim, length, true, rounds(type), 1)}))),
        blocks(rounds(type) ? rounded_up(block_floats(kernels)) : 0),
        distances(DistanceRow::floats(length)) {}

  static bool rounds(core::DataType type) { return type != core::DataType::fp32; }
  std::int64_t floats() const { return 2 * scores + packed + blocks + 2 * distances; }

  std::int64_t scores, packed, blocks, distances;
};

/// One sequence and head.
class HeadTask {
 public:
  using Sizes = Scratch;

  HeadTask(const TileKernels& kernels, const Scratch& sizes, const AttentionInputs& in, const AttentionResults& results,
           std::int64_t sequence, std::int64_t head, float* scratch)
      : kernels_(kernels),
        products_{scratch + 2 * sizes.scores, sizes.packed,
                  sizes.blocks > 0 ? scratch + 2 * sizes.scores + sizes.packed : nullptr, 1},
        in_(in),
        sequence_(sequence),
        head_(head),
        rows_(in, sequence, head),
        keys_(rows_.keys()),
        q_(part_of(in.q, in.queries, sequence, in.extents, head)),
        k_(part_of(in.k, in.keys, sequence, in.extents, head)),
        v_(part_of(in.v, in.keys, sequence, in.extents, head)),
        out_(part_of(results.out, in.queries, sequence, in.extents, head)),
        log_sum_exp_(results.log_sum_exp.row(head) + in.queries.offsets[sequence]),
        p_(scratch, q_.rows, keys_),
        d_(scratch + sizes.scores, q_.rows, keys_),
        bias_(scratch + 2 * sizes.scores + sizes.packed + sizes.blocks, keys_),
        d_bias_(scratch + 2 * sizes.scores + sizes.packed + sizes.blocks + sizes.distances, keys_) {
    if (has_bias()) bias_.fill(in.bias, head, 1.0f);
  }

  void forward() const {
    if (q_.rows == 0) return;
    multiply(q_, k_, Form::b_transposed, p_);
    for (std::int64_t i = 0; i < p_.rows; ++i) {
      scale(i, p_.row(i));
      log_sum_exp_[i] = rows_.softmax(i, p_.row(i));
    }
    multiply(p_, v_, Form::as_is, out_);
  }

  // With p = exp(s − lse) and D = d_out · out for each query: d_s = p·(kept·d_p − D) / √d.
  void backward(ConstMatrix d_out_of_all, const AttentionGradients& gradients) const {
    const Matrix d_q = part_of(gradients.d_q, in_.queries, sequence_, in_.extents, head_);
    const Matrix d_k = part_of(gradients.d_k, in_.keys, sequence_, in_.extents, head_);
    const Matrix d_v = part_of(gradients.d_v, in_.keys, sequence_, in_.extents, head_);
    const bool sums_distances = gradients.d_bias.size() > 0;
    if (sums_distances) d_bias_.clear();
    if (q_.rows == 0) {
      set_zero(d_k);
      set_zero(d_v);
      if (sums_distances) store_distances(gradients);
      return;
    }
    const ConstMatrix d_out = part_of(d_out_of_all, in_.queries, sequence_, in_.extents, head_);
    multiply(q_, k_, Form::b_transposed, p_);
    multiply(d_out, v_, Form::b_transposed, d_);
    for (std::int64_t i = 0; i < p_.rows; ++i) {
      scale(i, p_.row(i));
      rows_.backward(i, log_sum_exp_[i], diagonal_of(d_out, out_, i), p_.row(i), d_.row(i));
      if (sums_distances) add_distances(i, d_.row(i));
    }
    if (sums_distances) store_distances(gradients);
    multiply(d_, k_, Form::as_is, d_q);
    multiply(d_, q_, Form::a_transposed, d_k);
    multiply(p_, d_out, Form::a_transposed, d_v);
  }

 private:
  bool has_bias() const { return in_.bias.table.data != nullptr; }
  /// Scales a row of scores and adds the position bias.
  void scale(std::int64_t query, float* p) const {
    const auto [begin, end] = rows_.visible(query);
    const float factor = rows_.scale();
#pragma omp simd
    for (std::int64_t j = begin; j < end; ++j) p[j] *= factor;
    if (!has_bias()) return;
    const float* const bias = bias_.center() - rows_.position(query);
#pragma omp simd
    for (std::int64_t j = begin; j < end; ++j) p[j] += bias[j];
  }

  void add_distances(std::int64_t query, const float* d) const {
    float* const sums = d_bias_.center() - rows_.position(query);
#pragma omp simd
    for (std::int64_t j = 0; j < keys_; ++j) sums[j] += d[j];
  }
  void store_distances(const AttentionGradients& gradients) const {
    d_bias_.store(in_.keys.offsets[sequence_], 1.0f / rows_.scale(), gradients.d_bias.row(head_));
  }

  void multiply(ConstMatrix a, ConstMatrix b, Form form, Matrix c) const {
    cpu::multiply(kernels_, products_, a, b, form, c);
  }

  const TileKernels& kernels_;
  ProductScratch products_;
  const AttentionInputs& in_;
  std::int64_t sequence_, head_;
  ScoreRows rows_;
  std::int64_t keys_;
  ConstMatrix q_, k_, v_;
  Matrix out_;
  float* log_sum_exp_;
  Tensor<float> p_, d_;  // (queries, keys)
  DistanceRow bias_, d_bias_;
};

class UnfusedAttention : public Attention {
 public:
  UnfusedAttention(const TileKernels& kernels, core::DataType type) : tasks_(kernels, type) {}

  std::string name() const override { return std::string("plain, ") + tasks_.kernels_name(); }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim, bool) override {
    return tasks_.reserve(max_length, head_dim);
  }

  void forward(const AttentionInputs& in, const AttentionResults& results) override {
    tasks_.for_all({"bert_hpc::ops::plain_attention_forward", attention_work(in, 2, 2, 2)}, in, results,
                   [](const HeadTask& task) { task.forward(); });
  }

  void backward(const AttentionInputs& in, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    require_gradients(d_out, gradients);
    tasks_.for_all({"bert_hpc::ops::plain_attention_backward", attention_work(in, 5, 4, 4)}, in, results,
                   [&](const HeadTask& task) { task.backward(d_out, gradients); });
  }

 private:
  ProductTasks<HeadTask> tasks_;
};

}  // namespace

std::unique_ptr<Attention> make_unfused_attention(InstructionSet set, core::DataType type) {
  return std::make_unique<UnfusedAttention>(kernels_of(set, core::DataType::fp32), type);
}

}  // namespace bert_hpc::ops::cpu
