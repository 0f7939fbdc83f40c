// The definition of attention in double, with an error bound for each element. Compiled for speed: it takes most of the
// time of attention's tests.
#include <algorithm>
#include <cmath>

#include "support/attention_case.hpp"

namespace bert_hpc::test {

namespace {

/// Errors of tensor cores' attention, relative unless stated otherwise.
struct AttentionErrors {
  double stored;    // of a stored result
  double products;  // of the products of probabilities and ds with rows
  double scores;    // of the products of rows, q·k and d_out·v, relative to the sum of their terms' magnitudes
  double weight;    // of a probability, beside its score's error
  double absolute;  // error of a probability or ds, not relative to it

  /// 16-bit types with unit roundoff u: probabilities and ds are rounded with u before they are multiplied (2⁻²⁵ where
  /// fp16 is subnormal: probabilities are divided by their sum, 1 or more, later). Sums in float: a score below 8 has
  /// an error of about 8·√128·2⁻²⁴, and exp2 on a GPU one of 2⁻²², which makes 2e-5 of a probability.
  ///
  /// Floats: errors of products and chains as attention_operands.hpp states them; a chain has head_dim / 8 products for
  /// scores, and at most 8 for others, three times as many with SplitFp32. An exponent below 32 is rounded twice with
  /// 2⁻²⁴, and exp2 has an error of 2⁻²²: 4e-6 of a probability.
  static AttentionErrors of(const AttentionCase& c) {
    const double u = unit_roundoff(c.type);
    if (c.type != DataType::fp32) return {u, u, 0.0, 2e-5, 0x1p-25};
    const double factors = c.tf32 ? 0x1p-10 + 0x1p-21 : 0x1.4p-21, chain = (c.tf32 ? 1.0 : 3.0) * 0x1p-22;
    return {u, factors + 8.0 * chain, factors + static_cast<double>(c.extents.head_dim) / 8.0 * chain, 4e-6, 0.0};
  }
};

/// Sums of terms with errors, for a row of columns.
struct Sums {
  explicit Sums(std::size_t count) : value(count), bound(count) {}
  /// Adds factor · x, where factor has an error of factor_bound.
  void add(std::size_t first, double factor, double factor_bound, const double* x, std::size_t count) {
    double* const v = value.data() + first;
    double* const b = bound.data() + first;
    for (std::size_t i = 0; i < count; ++i) {
      v[i] += factor * x[i];
      b[i] += factor_bound * std::abs(x[i]);
    }
  }
  std::vector<double> value, bound;
};

std::vector<double> doubles(const StoredMatrix& matrix) {
  const std::vector<float> floats = matrix.floats();
  return {floats.begin(), floats.end()};
}

/// d_p − D is a difference of sums below |d_p| + |D| + Σ|d_out·v|, with an error of 2e-6 of these in float.
class Definition {
 public:
  Definition(const AttentionCase& c, const AttentionResults& r, const Matrix* d_bias, AttentionCheck& found)
      : c_(c),
        r_(r),
        found_(found),
        errors_(AttentionErrors::of(c)),
        hidden_(static_cast<std::size_t>(c.hidden)),
        q_(doubles(c.q)),
        kv_(doubles(c.kv)),
        d_out_(doubles(c.d_out)),
        out_(doubles(r.out)),
        d_q_(doubles(r.d_q)),
        d_kv_(kv_.size()),
        slots_(2 * c.keys.view().count),
        bias_(c.bias ? c.bias->host_view() : ops::PositionBias{}),
        relative_keys_(c.relative ? doubles(c.relative->keys()) : std::vector<double>()),
        relative_queries_(c.relative ? doubles(c.relative->queries()) : std::vector<double>()),
        d_relative_keys_(c.relative ? static_cast<std::size_t>(slots_ * c.hidden) : 0),
        d_relative_queries_(d_relative_keys_),
        given_d_bias_(d_bias),
        d_bias_(static_cast<std::size_t>(c.extents.heads * slots_)) {}

  void check() {
    for (std::int64_t i = 0; i < c_.queries.view().count; ++i) {
      for (std::int64_t head = 0; head < c_.extents.heads; ++head) row(i, head);
    }
    const std::vector<double> results = doubles(r_.d_kv);
    for (std::size_t at = 0; at < results.size(); ++at) {
      (at % (2 * hidden_) < hidden_ ? found_.wrong_d_k : found_.wrong_d_v) +=
          wrong(results[at], d_kv_.value[at], d_kv_.bound[at]);
    }
    if (c_.relative) check_relative();
    if (given_d_bias_ == nullptr) return;
    for (std::int64_t head = 0; head < c_.extents.heads; ++head) {
      for (std::size_t b = 0; b + 1 < c_.keys.offsets.size(); ++b) check_distances(head, b);
    }
  }

 private:
  std::int64_t wrong(double result, double expected, double bound) const {
    const double allowed = bound + errors_.stored * std::abs(expected) + 0x1p-24;
    return std::abs(result - expected) <= allowed * 1.01 ? 0 : 1;  // NaN counts as wrong
  }

  /// The sums of a sequence and head, those of distances from the bias's reach on as one.
  void check_distances(std::int64_t head, std::size_t sequence) {
    const std::int64_t first = c_.keys.offsets[sequence], keys = c_.keys.offsets[sequence + 1] - first;
    const std::int64_t reach = bias_.reach;
    std::vector<double> given(static_cast<std::size_t>(2 * reach + 1)), value(given), bound(given);
    for (std::int64_t distance = 1 - keys; distance < keys; ++distance) {
      const std::int64_t slot = ops::distance_slot(first, keys, distance);
      const auto at = static_cast<std::size_t>(head * slots_ + slot);
      const auto to = static_cast<std::size_t>(std::clamp(distance, -reach, reach) + reach);
      given[to] += (*given_d_bias_)(head, slot);
      value[to] += d_bias_.value[at];
      bound[to] += d_bias_.bound[at];
    }
    for (std::size_t i = 0; i < given.size(); ++i) found_.wrong_d_bias += wrong(given[i], value[i], bound[i]);
    found_.wrong_d_bias += (*given_d_bias_)(head, 2 * (first + keys) - 1) == 0.0f ? 0 : 1;  // the slot of no distance
  }

  void check_relative() {
    for (std::int64_t slot = 0; slot < slots_; ++slot) {
      for (std::int64_t column = 0; column < c_.hidden; ++column) {
        const auto at = static_cast<std::size_t>(slot * c_.hidden + column);
        found_.wrong_d_relative_keys +=
            wrong(r_.d_relative_keys(slot, column), d_relative_keys_.value[at], d_relative_keys_.bound[at]);
        found_.wrong_d_relative_queries +=
            wrong(r_.d_relative_queries(slot, column), d_relative_queries_.value[at], d_relative_queries_.bound[at]);
      }
    }
  }

  double kept(std::size_t sequence, std::int64_t head, std::int64_t position, std::int64_t j) const {
    if (c_.dropout.probability == 0.0f) return 1.0;
    const std::uint32_t threshold = ops::attention_dropout_threshold(c_.dropout.probability);
    const auto word = static_cast<std::uint32_t>((c_.extents.first_head + head) * (1 << 20) + position);
    const auto bits = ops::dropout_bits(c_.dropout, c_.samples[sequence], word, ops::attention_dropout_block(j));
    const int byte = ops::attention_dropout_byte(j);
    return ops::attention_dropout_keeps(bits, byte, threshold) ? 256.0 / (256.0 - threshold) : 0.0;
  }

  /// Offset of the relative positions' row of a distance.
  std::size_t row_of(std::int64_t distance) const {
    return static_cast<std::size_t>(c_.relative->host_buckets().bucket_of(distance)) * hidden_;
  }

  void row(std::int64_t i, std::int64_t head) {
    const auto row = static_cast<std::size_t>(i), width = static_cast<std::size_t>(c_.extents.head_dim);
    const std::size_t first = static_cast<std::size_t>(head) * width;
    const auto sequence = static_cast<std::size_t>(c_.queries.sequence[row]);
    const KeyRange range = c_.keys_of(row);
    const auto begin = static_cast<std::size_t>(c_.keys.offsets[sequence] + range.begin);
    const double scale = 1.0 / std::sqrt(static_cast<double>(width) * (c_.relative ? 3.0 : 1.0));
    const double *const q = q_.data() + row * hidden_ + first, *const d_o = d_out_.data() + row * hidden_ + first,
                        *const o = out_.data() + row * hidden_ + first;
    std::vector<double> p(static_cast<std::size_t>(range.end - range.begin)), d_p(p), size(p), keep(p), error(p);
    double largest = -1e300, total = 0.0, dot = 0.0, dot_size = 0.0, largest_error = 0.0;
    for (std::size_t x = 0; x < width; ++x) {  // backward reads out as stored
      dot += d_o[x] * o[x];
      dot_size += std::abs(d_o[x] * o[x]);
    }
    for (std::size_t j = 0; j < p.size(); ++j) {
      const double *const k = kv_.data() + (begin + j) * 2 * hidden_ + first, *const v = k + hidden_;
      double score = 0.0, score_size = 0.0, slope = 0.0, slope_size = 0.0;
      for (std::size_t x = 0; x < width; ++x) {
        score += q[x] * k[x];
        score_size += std::abs(q[x] * k[x]);
        slope += d_o[x] * v[x];
        slope_size += std::abs(d_o[x] * v[x]);
      }
      const std::int64_t distance = range.begin + static_cast<std::int64_t>(j) - std::int64_t{c_.queries.position[row]};
      if (c_.relative) {
        const std::size_t of_distance = row_of(distance) + first;
        const double *const rk = relative_keys_.data() + of_distance, *const rq =
                                                                          relative_queries_.data() + of_distance;
        for (std::size_t x = 0; x < width; ++x) {
          score += q[x] * rk[x] + k[x] * rq[x];
          score_size += std::abs(q[x] * rk[x]) + std::abs(k[x] * rq[x]);
        }
      }
      p[j] = score * scale + (c_.bias ? bias_.table(head, bias_.bucket_of(distance)) : 0.0);
      error[j] = score_size * scale * errors_.scores;
      d_p[j] = slope;
      size[j] = slope_size;
      keep[j] = kept(sequence, head, c_.queries.position[row], range.begin + static_cast<std::int64_t>(j));
      largest = std::max(largest, p[j]);
      largest_error = std::max(largest_error, error[j]);
    }
    for (double& s : p) total += s = std::exp(s - largest);
    const double lse = largest + std::log(total);
    found_.wrong_lse += std::abs(r_.lse(head, i) - lse) <= errors_.weight + largest_error ? 0 : 1;
    Sums out(width), d_q(width);
    for (std::size_t j = 0; j < p.size(); ++j) {
      const std::size_t offset = (begin + j) * 2 * hidden_ + first;
      const double *const k = kv_.data() + offset, *const v = k + hidden_;
      p[j] /= total;
      const double weight = std::expm1(error[j] + largest_error) + errors_.weight;  // error of a probability
      const double probability = keep[j] * p[j];
      const double probability_bound = (errors_.products + weight) * probability + keep[j] * errors_.absolute;
      const double slope = p[j] * (keep[j] * d_p[j] - dot);
      const double slope_bound =
          (errors_.products + weight) * std::abs(slope) + errors_.absolute +
          (1.0 + weight) * p[j] * ((errors_.scores + 2e-6) * keep[j] * size[j] + 2e-6 * dot_size);
      out.add(0, probability, probability_bound, v, width);
      d_q.add(0, scale * slope, scale * slope_bound, k, width);
      d_kv_.add(offset, scale * slope, scale * slope_bound, q, width);
      d_kv_.add(offset + hidden_, probability, probability_bound, d_o, width);
      const std::int64_t first_key = c_.keys.offsets[sequence], keys = c_.keys.offsets[sequence + 1] - first_key;
      const std::int64_t distance = range.begin + static_cast<std::int64_t>(j) - std::int64_t{c_.queries.position[row]};
      if (c_.relative) {
        const std::size_t of_distance = row_of(distance) + first;
        const auto to = static_cast<std::size_t>(ops::distance_slot(first_key, keys, distance)) * hidden_ + first;
        d_q.add(0, scale * slope, scale * slope_bound, relative_keys_.data() + of_distance, width);
        d_kv_.add(offset, scale * slope, scale * slope_bound, relative_queries_.data() + of_distance, width);
        d_relative_keys_.add(to, scale * slope, scale * slope_bound, q, width);
        d_relative_queries_.add(to, scale * slope, scale * slope_bound, k, width);
      }
      const double one = 1.0;
      d_bias_.add(static_cast<std::size_t>(head * slots_ + ops::distance_slot(first_key, keys, distance)), slope,
                  slope_bound, &one, 1);
    }
    for (std::size_t x = 0; x < width; ++x) {
      found_.wrong_out += wrong(o[x], out.value[x], out.bound[x]);
      found_.wrong_d_q += wrong(d_q_[row * hidden_ + first + x], d_q.value[x], d_q.bound[x]);
    }
  }

  const AttentionCase& c_;
  const AttentionResults& r_;
  AttentionCheck& found_;
  AttentionErrors errors_;
  std::size_t hidden_;
  std::vector<double> q_, kv_, d_out_, out_, d_q_;
  Sums d_kv_;
  std::int64_t slots_;
  ops::PositionBias bias_;
  std::vector<double> relative_keys_, relative_queries_;
  Sums d_relative_keys_, d_relative_queries_;  // (slots_, hidden)
  const Matrix* given_d_bias_;
  Sums d_bias_;  // (heads, slots_)
};

}  // namespace

AttentionCheck::AttentionCheck(const AttentionCase& c, const AttentionResults& r, const Matrix* d_bias) {
  Definition(c, r, d_bias, *this).check();
}

}  // namespace bert_hpc::test
