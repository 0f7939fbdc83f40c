// Rows of scores in memory, one sequence and head: what unfused attention does with them between matrix products.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_task.hpp"
#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"
#include "bert_hpc/ops/vector_math.hpp"

namespace bert_hpc::ops::cpu {

class ScoreRows {
 public:
  ScoreRows(const AttentionInputs& in, std::int64_t sequence, std::int64_t head)
      : in_(in),
        sequence_(sequence),
        head_(head),
        first_query_(in.queries.offsets[sequence]),
        keys_(in.keys.offsets[sequence + 1] - in.keys.offsets[sequence]),
        threshold_(attention_dropout_threshold(in.dropout.probability)),
        scale_(static_cast<float>(in.scale())),
        drop_scale_(attention_dropout_scale(threshold_)) {}

  float scale() const { return scale_; }
  std::int64_t keys() const { return keys_; }
  /// In its sequence, of a query that is numbered among the sequence's queries.
  std::int64_t position(std::int64_t query) const { return in_.queries.position[first_query_ + query]; }

  struct KeyRange {
    std::int64_t begin, end;
  };
  /// The keys that the mask and the padding leave to a query.
  KeyRange visible(std::int64_t query) const {
    const std::int64_t real = in_.real_keys != nullptr ? in_.real_keys[sequence_] : keys_;
    if (!in_.mask.is_limited()) return {0, real};
    return {in_.mask.begin(position(query), real), in_.mask.end(position(query), real)};
  }

  /// From scaled scores (keys) to probabilities that dropout keeps, in place. Returns the log-sum-exp.
  float softmax(std::int64_t query, float* p) const {
    const KeyRange keys = visible(query);
    const float largest = largest_of(p, keys), total = exponentials(p, keys, largest);
    scale_kept(query, p, 1.0f / total, p);
    return largest + std::log(total);
  }

  /// In: scaled scores in p, d_out·v in d. Out: kept·probability in p, and in d, with `diagonal` D = d_out·out,
  /// d_s = scale·p·(kept·d_p − D).
  void backward(std::int64_t query, float log_sum_exp, float diagonal, float* p, float* d) const {
    const KeyRange keys = visible(query);
#pragma omp simd
    for (std::int64_t j = keys.begin; j < keys.end; ++j) p[j] = fast_exp(p[j] - log_sum_exp);
    clear_others(p, keys);
    scale_kept(query, d, 1.0f, d);
#pragma omp simd
    for (std::int64_t j = 0; j < keys_; ++j) d[j] = scale_ * p[j] * (d[j] - diagonal);
    scale_kept(query, p, 1.0f, p);
  }

 private:
  /// p = 0 for the other keys.
  void clear_others(float* p, const KeyRange& visible) const {
    std::fill(p, p + visible.begin, 0.0f);
    std::fill(p + visible.end, p + keys_, 0.0f);
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
    const auto row = static_cast<std::uint32_t>(((in_.extents.first_head + head_) << 20) + position(query));
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

  const AttentionInputs& in_;
  std::int64_t sequence_, head_, first_query_, keys_;
  std::uint32_t threshold_;
  float scale_, drop_scale_;
};

/// d_out · out of a row.
inline float diagonal_of(ConstMatrix d_out, ConstMatrix out, std::int64_t row) {
  float sum = 0.0f;
  core::with_type(out.type, [&]<class T>() {
    const T *const a = d_out.as<T>().row(row), *const b = out.as<T>().row(row);
#pragma omp simd reduction(+ : sum)
    for (std::int64_t c = 0; c < out.columns; ++c) sum += a[c] * b[c];
  });
  return sum;
}

}  // namespace bert_hpc::ops::cpu
