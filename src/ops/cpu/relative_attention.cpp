// Attention with relative positions: matrix products of a block of queries with keys and with the rows of all distances
// that the block meets. A thread holds the scores of one block of one sequence and head.
//
// A product with rows of distances has more columns than the block has pairs: distance j − i of a pair is in row i, at
// a column that shifts by one from row to row. With 128 queries and 64 keys at a time it computes 191 · 64 of the keys'
// products for 128 · 64 pairs. Gradients go the same way back: those of scores, shifted, are an operand with zeros
// beside them.
#include "relative_attention.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "head_product.hpp"
#include "score_rows.hpp"

namespace bert_hpc::ops::cpu {
namespace {

using core::DataType;

constexpr std::int64_t block_queries = 128, block_keys = 64;
constexpr std::int64_t key_distances = block_queries + block_keys - 1;  // of a block of queries and one of keys

/// Parts of a task's scratch, in floats.
struct Scratch {
  Scratch(const TileKernels& kernels, DataType type, std::int64_t length, std::int64_t head_dim)
      : scores(rounded_up(block_queries * length)),
        shifted(rounded_up(block_queries * (length + block_queries - 1))),
        shifted_keys(rounded_up(block_keys * key_distances)),
        distances(rounded_up((2 * length - 1) * head_dim)),
        rows(rounded_up(length * head_dim)),
        query_rows(rounded_up(block_queries * head_dim)),
        blocks(type == DataType::fp32 ? 0 : rounded_up(block_floats(kernels))) {
    const bool rounds = type != DataType::fp32;
    const std::int64_t wide = length + block_queries - 1;
    const auto most = [&](std::int64_t m, std::int64_t n, std::int64_t k, bool transposed) {
      packed = std::max(packed, rounded_up(scratch_floats(kernels, m, n, k, transposed, rounds, 1)));
    };
    most(block_queries, wide, head_dim, false);
    most(block_keys, key_distances, head_dim, false);
    most(block_queries, head_dim, wide, false);
    most(block_keys, head_dim, key_distances, false);
    most(wide, head_dim, block_queries, true);
    most(key_distances, head_dim, block_keys, true);
  }
  std::int64_t floats() const {
    return 2 * scores + shifted + shifted_keys + 2 * distances + 2 * rows + query_rows + blocks + packed;
  }

  std::int64_t scores, shifted, shifted_keys, distances, rows, query_rows, blocks, packed = 0;
};

/// Hands out the parts one after the other.
struct Parts {
  float* next;
  float* take(std::int64_t floats) { return std::exchange(next, next + floats); }
};

/// Rows of queries whose positions differ by less than block_queries.
struct QueryBlock {
  std::int64_t begin, count;
  std::int64_t first_position, last_position;
};

/// to = from, rounded to the type of `to`.
void store(const Tensor<float>& from, const Matrix& to) {
  core::with_type(to.type, [&]<class T>() {
    const Tensor<T> typed = to.as<T>();
    for (std::int64_t i = 0; i < from.rows; ++i) {
      const float* const row = from.row(i);
      T* const out = typed.row(i);
#pragma omp simd
      for (std::int64_t c = 0; c < from.columns; ++c) out[c] = row[c];
    }
  });
}

/// One sequence and head.
class HeadTask {
 public:
  using Sizes = Scratch;

  HeadTask(const TileKernels& kernels, const Scratch& sizes, const AttentionInputs& in, const AttentionResults& results,
           std::int64_t sequence, std::int64_t head, float* scratch)
      : kernels_(kernels),
        in_(in),
        sequence_(sequence),
        head_(head),
        rows_(in, sequence, head),
        keys_(rows_.keys()),
        head_dim_(in.extents.head_dim),
        q_(part_of(in.q, in.queries, sequence, in.extents, head)),
        k_(part_of(in.k, in.keys, sequence, in.extents, head)),
        v_(part_of(in.v, in.keys, sequence, in.extents, head)),
        out_(part_of(results.out, in.queries, sequence, in.extents, head)),
        log_sum_exp_(results.log_sum_exp.row(head) + in.queries.offsets[sequence]) {
    Parts parts{scratch};
    p_ = parts.take(sizes.scores);
    d_ = parts.take(sizes.scores);
    shifted_ = parts.take(sizes.shifted);
    shifted_keys_ = parts.take(sizes.shifted_keys);
    relative_keys_ = {parts.take(sizes.distances), 2 * keys_ - 1, head_dim_};
    relative_queries_ = {parts.take(sizes.distances), 2 * keys_ - 1, head_dim_};
    d_k_ = {parts.take(sizes.rows), keys_, head_dim_};
    d_v_ = {parts.take(sizes.rows), keys_, head_dim_};
    d_q_ = parts.take(sizes.query_rows);
    float* const blocks = parts.take(sizes.blocks);
    products_ = {parts.next, sizes.packed, sizes.blocks > 0 ? blocks : nullptr, 1};
    if (q_.rows == 0) return;
    spread(in.relative.keys, relative_keys_);
    spread(in.relative.queries, relative_queries_);
  }

  void forward() const {
    for_blocks([&](const QueryBlock& block) {
      const Tensor<float> p = scores_of(block);
      for (std::int64_t i = 0; i < p.rows; ++i) {
        log_sum_exp_[block.begin + i] = rows_.softmax(block.begin + i, p.row(i));
      }
      multiply(p, v_, Form::as_is, out_.row_range(block.begin, block.count));
    });
  }

  void backward(ConstMatrix d_out_of_all, const AttentionGradients& gradients) const {
    const Matrix d_q = part_of(gradients.d_q, in_.queries, sequence_, in_.extents, head_);
    const Matrix d_k = part_of(gradients.d_k, in_.keys, sequence_, in_.extents, head_);
    const Matrix d_v = part_of(gradients.d_v, in_.keys, sequence_, in_.extents, head_);
    const ConstMatrix d_out_of_task = part_of(d_out_of_all, in_.queries, sequence_, in_.extents, head_);
    const bool sums = gradients.d_relative_keys.size() > 0;
    const Matrix d_relative_keys = sums ? by_distance(gradients.d_relative_keys) : Matrix();
    const Matrix d_relative_queries = sums ? by_distance(gradients.d_relative_queries) : Matrix();
    for (const Matrix& total : {d_relative_keys, d_relative_queries, Matrix(d_k_), Matrix(d_v_)}) set_zero(total);
    for_blocks([&](const QueryBlock& block) {
      const ConstMatrix q = q_.row_range(block.begin, block.count);
      const ConstMatrix d_out = d_out_of_task.row_range(block.begin, block.count);
      const ConstMatrix out = ConstMatrix(out_).row_range(block.begin, block.count);
      const Tensor<float> p = scores_of(block), d(d_, block.count, keys_), d_q_sum(d_q_, block.count, head_dim_);
      multiply(d_out, v_, Form::b_transposed, d);
      for (std::int64_t i = 0; i < p.rows; ++i) {
        const std::int64_t query = block.begin + i;
        rows_.backward(query, log_sum_exp_[query], diagonal_of(d_out, out, i), p.row(i), d.row(i));
      }
      multiply(p, d_out, Form::a_transposed, d_v_, Begin::existing);
      multiply(d, q, Form::a_transposed, d_k_, Begin::existing);
      multiply(d, k_, Form::as_is, d_q_sum);
      add_query_gradients(block, d, q, d_q_sum, d_relative_keys);
      add_key_gradients(block, d, d_relative_queries);
      store(d_q_sum, d_q.row_range(block.begin, block.count));
    });
    store(d_k_, d_k);
    store(d_v_, d_v);
  }

 private:
  /// to (2 · keys - 1, head_dim): the rows of distances 1 - keys … keys - 1, as floats.
  void spread(const ConstMatrix& by_bucket, const Tensor<float>& to) const {
    core::with_type(by_bucket.type, [&]<class T>() {
      const Tensor<const T> from = by_bucket.as<T>();
      for (std::int64_t row = 0; row < to.rows; ++row) {
        const std::int32_t bucket = in_.relative.distances.bucket_of(row + 1 - keys_);
        const T* const values = from.row(bucket) + head_ * head_dim_;
        float* const out = to.row(row);
#pragma omp simd
        for (std::int64_t c = 0; c < head_dim_; ++c) out[c] = values[c];
      }
    });
  }

  /// This head's columns of the rows of this sequence, distance_slot() of distances 1 - keys … keys.
  Matrix by_distance(const Tensor<float>& all) const {
    return Matrix(all).row_range(2 * in_.keys.offsets[sequence_], 2 * keys_).column_range(head_ * head_dim_, head_dim_);
  }

  template <class Run>
  void for_blocks(const Run& run) const {
    for (std::int64_t begin = 0, end = 0; begin < q_.rows; begin = end) {
      const std::int64_t first = rows_.position(begin);
      while (end < q_.rows && end - begin < block_queries && rows_.position(end) < first + block_queries) ++end;
      run(QueryBlock{begin, end - begin, first, rows_.position(end - 1)});
    }
  }

  /// Rows of the distances between queries of the block and keys from `key` on, and how many.
  struct Window {
    std::int64_t begin, count;
  };
  Window window(const QueryBlock& block, std::int64_t key, std::int64_t keys) const {
    return {key - block.last_position + keys_ - 1, keys + block.last_position - block.first_position};
  }
  /// In the columns of a window, the one of a query of the block and the window's first key.
  std::int64_t shift(const QueryBlock& block, std::int64_t query) const {
    return block.last_position - rows_.position(block.begin + query);
  }
  template <class Run>
  void for_key_blocks(const Run& run) const {
    for (std::int64_t key = 0; key < keys_; key += block_keys) run(key, std::min(block_keys, keys_ - key));
  }

  /// (queries of the block, keys): scaled scores.
  Tensor<float> scores_of(const QueryBlock& block) const {
    const Tensor<float> p(p_, block.count, keys_);
    const ConstMatrix q = q_.row_range(block.begin, block.count);
    multiply(q, k_, Form::b_transposed, p);
    const Window all = window(block, 0, keys_);
    const Tensor<float> of_queries(shifted_, block.count, all.count);
    multiply(q, ConstMatrix(relative_keys_).row_range(all.begin, all.count), Form::b_transposed, of_queries);
    for (std::int64_t i = 0; i < p.rows; ++i) {
      const float* const from = of_queries.row(i) + shift(block, i);
      float* const to = p.row(i);
#pragma omp simd
      for (std::int64_t j = 0; j < keys_; ++j) to[j] += from[j];
    }
    const float scale = rows_.scale();
    for_key_blocks([&](std::int64_t key, std::int64_t count) {
      const Window some = window(block, key, count);
      const Tensor<float> of_keys(shifted_keys_, count, some.count);
      multiply(k_.row_range(key, count), ConstMatrix(relative_queries_).row_range(some.begin, some.count),
               Form::b_transposed, of_keys);
      for (std::int64_t i = 0; i < p.rows; ++i) {
        const float* const from = of_keys.row(0) + shift(block, i);
        float* const to = p.row(i) + key;
        const std::int64_t diagonal = some.count + 1;
#pragma omp simd
        for (std::int64_t j = 0; j < count; ++j) to[j] = scale * (to[j] + from[j * diagonal]);
      }
    });
    return p;
  }

  /// d_q += d_s · rows of distances, and the gradients of these rows += d_sᵀ · q, both by distance.
  void add_query_gradients(const QueryBlock& block, const Tensor<float>& d, ConstMatrix q, const Tensor<float>& d_q,
                           const Matrix& d_relative_keys) const {
    const Window all = window(block, 0, keys_);
    const Tensor<float> shifted(shifted_, block.count, all.count);
    std::fill_n(shifted.data, shifted.size(), 0.0f);
    for (std::int64_t i = 0; i < d.rows; ++i) std::copy_n(d.row(i), keys_, shifted.row(i) + shift(block, i));
    multiply(shifted, ConstMatrix(relative_keys_).row_range(all.begin, all.count), Form::as_is, d_q, Begin::existing);
    if (d_relative_keys.data == nullptr) return;
    multiply(shifted, q, Form::a_transposed, d_relative_keys.row_range(all.begin, all.count), Begin::existing);
  }

  /// The same for the keys.
  void add_key_gradients(const QueryBlock& block, const Tensor<float>& d, const Matrix& d_relative_queries) const {
    for_key_blocks([&](std::int64_t key, std::int64_t count) {
      const Window some = window(block, key, count);
      const Tensor<float> shifted(shifted_keys_, count, some.count);
      std::fill_n(shifted.data, shifted.size(), 0.0f);
      const std::int64_t diagonal = some.count + 1;
      for (std::int64_t i = 0; i < d.rows; ++i) {
        const float* const from = d.row(i) + key;
        float* const to = shifted.data + shift(block, i);
        for (std::int64_t j = 0; j < count; ++j) to[j * diagonal] = from[j];
      }
      multiply(shifted, ConstMatrix(relative_queries_).row_range(some.begin, some.count), Form::as_is,
               Matrix(d_k_).row_range(key, count), Begin::existing);
      if (d_relative_queries.data == nullptr) return;
      multiply(shifted, k_.row_range(key, count), Form::a_transposed,
               d_relative_queries.row_range(some.begin, some.count), Begin::existing);
    });
  }

  void multiply(ConstMatrix a, ConstMatrix b, Form form, Matrix c, Begin begin = Begin::zero) const {
    cpu::multiply(kernels_, products_, a, b, form, c, begin);
  }

  const TileKernels& kernels_;
  ProductScratch products_;
  const AttentionInputs& in_;
  std::int64_t sequence_, head_;
  ScoreRows rows_;
  std::int64_t keys_, head_dim_;
  ConstMatrix q_, k_, v_;
  Matrix out_;
  float* log_sum_exp_;
  float *p_, *d_, *shifted_, *shifted_keys_, *d_q_;  // of a block
  Tensor<float> relative_keys_, relative_queries_;   // (2 · keys - 1, head_dim)
  Tensor<float> d_k_, d_v_;                          // (keys, head_dim)
};

class RelativeAttention : public Attention {
 public:
  RelativeAttention(const TileKernels& kernels, DataType type, std::unique_ptr<Attention> usual)
      : usual_(std::move(usual)), tasks_(kernels, type) {}

  std::string name() const override {
    return relative_ ? std::string("disentangled, ") + tasks_.kernels_name() : usual_->name();
  }

  std::int64_t reserve(std::int64_t max_length, std::int64_t head_dim, bool relative) override {
    if (!relative) return usual_->reserve(max_length, head_dim, relative);
    relative_ = true;
    return tasks_.reserve(max_length, head_dim);
  }

  void forward(const AttentionInputs& in, const AttentionResults& results) override {
    if (!in.relative.any()) return usual_->forward(in, results);
    tasks_.for_all({"bert_hpc::ops::relative_attention_forward", attention_work(in, 4, 2, 2)}, in, results,
                   [](const HeadTask& task) { task.forward(); });
  }

  void backward(const AttentionInputs& in, const AttentionResults& results, ConstMatrix d_out,
                const AttentionGradients& gradients) override {
    if (!in.relative.any()) return usual_->backward(in, results, d_out, gradients);
    require_gradients(d_out, gradients);
    tasks_.for_all({"bert_hpc::ops::relative_attention_backward", attention_work(in, 11, 4, 4)}, in, results,
                   [&](const HeadTask& task) { task.backward(d_out, gradients); });
  }

 private:
  std::unique_ptr<Attention> usual_;
  bool relative_ = false;
  ProductTasks<HeadTask> tasks_;
};

}  // namespace

std::unique_ptr<Attention> make_relative_attention(InstructionSet set, DataType type,
                                                   std::unique_ptr<Attention> usual) {
  return std::make_unique<RelativeAttention>(kernels_of(set, DataType::fp32), type, std::move(usual));
}

}  // namespace bert_hpc::ops::cpu
