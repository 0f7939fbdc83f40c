// Attention as programs without a fused kernel compute it, for comparison: matrix products of whole sequences, between
// them passes over the scores, which lie in memory. A thread holds the scores of one sequence and head at a time.
// Backward computes them again from the rows' log-sum-exps.
#include "unfused_attention.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "bert_hpc/ops/attention_dropout.hpp"
#include "bert_hpc/ops/vector_math.hpp"
#include "blocked_product.hpp"
#include "distance_row.hpp"
#include "head_tasks.hpp"

namespace bert_hpc::ops::cpu {
namespace {

/// Which operands of a product c = op(a)·op(b) are transposed.
enum class Form { as_is, a_transposed, b_transposed };

constexpr std::int64_t rounded_up(std::int64_t floats) {
  return (floats + 15) / 16 * 16;
}

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
  HeadTask(const TileKernels& kernels, const Scratch& sizes, const AttentionInputs& in, const AttentionResults& results,
           std::int64_t sequence, std::int64_t head, float* scratch)
      : kernels_(kernels),
        products_{scratch + 2 * sizes.scores, sizes.packed,
                  sizes.blocks > 0 ? scratch + 2 * sizes.scores + sizes.packed : nullptr, 1},
        in_(in),
        sequence_(sequence),
        head_(head),
        first_query_(in.queries.offsets[sequence]),
        keys_(in.keys.offsets[sequence + 1] - in.keys.offsets[sequence]),
        threshold_(attention_dropout_threshold(in.dropout.probability)),
        scale_(static_cast<float>(1.0 / std::sqrt(static_cast<double>(in.extents.head_dim)))),
        drop_scale_(attention_dropout_scale(threshold_)),
        q_(part_of(in.q, in.queries, sequence, in.extents, head)),
        k_(part_of(in.k, in.keys, sequence, in.extents, head)),
        v_(part_of(in.v, in.keys, sequence, in.extents, head)),
        out_(part_of(results.out, in.queries, sequence, in.extents, head)),
        log_sum_exp_(results.log_sum_exp.row(head) + first_query_),
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
      float* const p = p_.row(i);
      const KeyRange keys = visible(i);
      scale(i, p, keys);
      const float largest = largest_of(p, keys);
      const float total = exponentials(p, keys, largest);
      log_sum_exp_[i] = largest + std::log(total);
      scale_kept(i, p, 1.0f / total, p);
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
    core::with_type(out_.type, [&]<class T>() {
      const Tensor<const T> out = ConstMatrix(out_).as<T>(), d_o = d_out.as<T>();
      for (std::int64_t i = 0; i < p_.rows; ++i) {
        float diagonal = 0.0f;
#pragma omp simd reduction(+ : diagonal)
        for (std::int64_t c = 0; c < out.columns; ++c) diagonal += d_o.row(i)[c] * out.row(i)[c];
        backward_row(i, diagonal, p_.row(i), d_.row(i));
        if (sums_distances) add_distances(i, d_.row(i));
      }
    });
    if (sums_distances) store_distances(gradients);
    multiply(d_, k_, Form::as_is, d_q);
    multiply(d_, q_, Form::a_transposed, d_k);
    multiply(p_, d_out, Form::a_transposed, d_v);
  }

 private:
  struct KeyRange {
    std::int64_t begin, end;
  };
  /// The keys that the mask and the padding leave to a query.
  KeyRange visible(std::int64_t query) const {
    const std::int64_t real = in_.real_keys != nullptr ? in_.real_keys[sequence_] : keys_;
    if (!in_.mask.is_limited()) return {0, real};
    const std::int64_t position = in_.queries.position[first_query_ + query];
    return {in_.mask.begin(position, real), in_.mask.end(position, real)};
  }
  /// p = 0 for the other keys.
  void clear_others(float* p, const KeyRange& visible) const {
    std::fill(p, p + visible.begin, 0.0f);
    std::fill(p + visible.end, p + keys_, 0.0f);
  }

  bool has_bias() const {
    return in_.bias.table.data != nullptr;
  }
  std::int64_t position(std::int64_t query) const {
    return in_.queries.position[first_query_ + query];
  }

  /// Scales the scores of the visible keys and adds the position bias.
  void scale(std::int64_t query, float* p, const KeyRange& visible) const {
#pragma omp simd
    for (std::int64_t j = visible.begin; j < visible.end; ++j) p[j] *= scale_;
    if (!has_bias()) return;
    const float* const bias = bias_.center() - position(query);
#pragma omp simd
    for (std::int64_t j = visible.begin; j < visible.end; ++j) p[j] += bias[j];
  }

  void add_distances(std::int64_t query, const float* d) const {
    float* const sums = d_bias_.center() - position(query);
#pragma omp simd
    for (std::int64_t j = 0; j < keys_; ++j) sums[j] += d[j];
  }
  void store_distances(const AttentionGradients& gradients) const {
    d_bias_.store(in_.keys.offsets[sequence_], 1.0f / scale_, gradients.d_bias.row(head_));
  }

  static float largest_of(const float* p, const KeyRange& visible) {
    float largest = -std::numeric_limits<float>::max();
#pragma omp simd reduction(max : largest)
    for (std::int64_t j = visible.begin; j < visible.end; ++j) {
      largest = p[j] > largest ? p[j] : largest;
    }
    return largest;
  }

  /// p = exp(p − largest) of the visible keys, 0 of the others; returns the sum.
  float exponentials(float* p, const KeyRange& visible, float largest) const {
    float total = 0.0f;
#pragma omp simd reduction(+ : total)
    for (std::int64_t j = visible.begin; j < visible.end; ++j) {
      p[j] = fast_exp(p[j] - largest);
      total += p[j];
    }
    clear_others(p, visible);
    return total;
  }

  /// kept[j] = 1 / P(keep) or 0 for keys [begin, begin + 64).
  void draw(std::int64_t query, std::int64_t begin, float* kept) const {
    const auto row = static_cast<std::uint32_t>(((in_.extents.first_head + head_) << 20) +
                                                in_.queries.position[first_query_ + query]);
    for (std::int64_t pair = 0; pair < 8; pair += 2) {  // the keys with these values of key % 8 share a block
      const core::Philox4 bits =
          dropout_bits(in_.dropout, in_.dropout.sample[sequence_], row, attention_dropout_block(begin + pair));
      for (std::int64_t eight = 0; eight < 64; eight += 8) {
        for (std::int64_t j = eight + pair; j < eight + pair + 2; ++j) {
          kept[j] = attention_dropout_keeps(bits, attention_dropout_byte(begin + j), threshold_) ? drop_scale_ : 0.0f;
        }
      }
    }
  }

  /// to = factor · kept · p.
  void scale_kept(std::int64_t query, const float* p, float factor, float* to) const {
    if (threshold_ == 0) {
#pragma omp simd
      for (std::int64_t j = 0; j < keys_; ++j) to[j] = factor * p[j];
      return;
    }
    float kept[64];
    for (std::int64_t begin = 0; begin < keys_; begin += 64) {
      draw(query, begin, kept);
      const std::int64_t count = std::min<std::int64_t>(64, keys_ - begin);
#pragma omp simd
      for (std::int64_t j = 0; j < count; ++j) to[begin + j] = factor * kept[j] * p[begin + j];
    }
  }

  /// In: scores in p, d_out·v in d. Out: kept·probability in p, d_s in d.
  void backward_row(std::int64_t query, float diagonal, float* p, float* d) const {
    const KeyRange keys = visible(query);
    scale(query, p, keys);
    const float lse = log_sum_exp_[query];
#pragma omp simd
    for (std::int64_t j = keys.begin; j < keys.end; ++j) p[j] = fast_exp(p[j] - lse);
    clear_others(p, keys);
    scale_kept(query, d, 1.0f, d);
#pragma omp simd
    for (std::int64_t j = 0; j < keys_; ++j) d[j] = scale_ * p[j] * (d[j] - diagonal);
    scale_kept(query, p, 1.0f, p);
  }

  /// c = op(a)·op(b). Scores are floats; products of 16-bit operands are summed in floats and rounded once.
  void multiply(ConstMatrix a, ConstMatrix b, Form form, Matrix c) const {
    BlockedProduct product;
    product.m = c.rows;
    product.n = c.columns;
    product.k = form == Form::a_transposed ? a.rows : a.columns;
    product.a_source = source_of(a.type);
    product.b_source = source_of(b.type);
    product.c_source = source_of(c.type);
    product.a = a.data;
    product.a_stride = a.stride;
    product.a_transposed = form == Form::a_transposed;
    product.b = b.data;
    product.b_stride = b.stride;
    product.b_transposed = form == Form::b_transposed;
    product.c = c.data;
    product.c_stride = c.stride;
    run_alone(kernels_, product, products_);
  }

  static void set_zero(const Matrix& x) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      char* const row = static_cast<char*>(x.row(i));
      std::fill_n(row, x.columns * core::bytes_of(x.type), char{0});
    }
  }

  const TileKernels& kernels_;
  ProductScratch products_;
  const AttentionInputs& in_;
  std::int64_t sequence_, head_, first_query_, keys_;
  std::uint32_t threshold_;
  float scale_, drop_scale_;
  ConstMatrix q_, k_, v_;
  Matrix out_;
  float* log_sum_exp_;
  Tensor<float> p_, d_;  // (queries, keys)
  DistanceRow bias_, d_bias_;
};

class UnfusedAttention : public Attention {
 public:
  UnfusedAttention(const TileKernels& kernels, core::DataType type) : kernels_(kernels), type_(type) {}

  std::string name() const override { return std::string("plain, ") + kernels_.name; }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim) override {
    return tasks_.reserve(Scratch(kernels_, type_, max_length, head_dim).floats());
  }

  void forward(const AttentionInputs& in, const AttentionResults& results) override {
    require_operands(in, results, type_);
    for_tasks({"bert_hpc::ops::plain_attention_forward", attention_work(in, 2, 2, 2)}, in, results,
              [](const HeadTask& task) { task.forward(); });
  }

  void backward(const AttentionInputs& in, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    require_operands(in, results, type_);
    require_gradients(d_out, gradients);
    for_tasks({"bert_hpc::ops::plain_attention_backward", attention_work(in, 5, 4, 4)}, in, results,
              [&](const HeadTask& task) { task.backward(d_out, gradients); });
  }

 private:
  template <class Run>
  void for_tasks(const kernel::Label& label, const AttentionInputs& in, const AttentionResults& results,
                 const Run& run) {
    const Scratch sizes(kernels_, type_, in.extents.max_length, in.extents.head_dim);
    tasks_.for_all(label, in.extents, sizes.floats(), [&](std::int64_t sequence, std::int64_t head, float* scratch) {
      run(HeadTask(kernels_, sizes, in, results, sequence, head, scratch));
    });
  }

  const TileKernels& kernels_;
  core::DataType type_;
  HeadTasks tasks_;
};

}  // namespace

std::unique_ptr<Attention> make_unfused_attention(InstructionSet set, core::DataType type) {
  return std::make_unique<UnfusedAttention>(kernels_of(set, core::DataType::fp32), type);
}

}  // namespace bert_hpc::ops::cpu
