// An attention problem on matrices of any type with its results, and the expected results: a double-precision loop over
// the same numbers, with an error bound per element for kernels on tensor cores.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <string>

#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"
#include "support/stored_matrix.hpp"

namespace test {

/// Keys of a sequence.
struct KeyRange {
  std::int64_t begin, end;
};

/// The rows of an attention problem, and what else its inputs have beside matrices.
struct AttentionRows {
  /// samples: of each sequence.
  AttentionRows(const std::vector<std::vector<int>>& query_positions, const std::vector<int>& lengths,
                std::int64_t heads, std::int64_t head_dim, float probability, const Vector<std::int64_t>& of_samples,
                std::int64_t first_head = 0)
      : queries(query_positions), keys(lengths), hidden(heads * head_dim), samples(of_samples) {
    extents = {static_cast<std::int64_t>(lengths.size()), heads, head_dim, 0, first_head};
    for (int length : lengths) extents.max_length = std::max<std::int64_t>(extents.max_length, length);
    dropout.probability = probability;
    dropout.site = 5;
    bert_hpc::ops::set_dropout_key(dropout, 11, 12);
  }
  bert_hpc::ops::AttentionInputs inputs_of(bert_hpc::core::ConstMatrix q, bert_hpc::core::ConstMatrix k,
                                           bert_hpc::core::ConstMatrix v) const {
    return {.extents = extents,
            .queries = queries.view(),
            .keys = keys.view(),
            .dropout = at_samples(),
            .q = q,
            .k = k,
            .v = v,
            .mask = mask,
            .real_keys = real_keys.empty() ? nullptr : real_keys.data()};
  }
  bert_hpc::core::Dropout at_samples() const {
    bert_hpc::core::Dropout site = dropout;
    site.sample = samples.data();
    return site;
  }
  /// The keys of its sequence that have a weight for a query row.
  KeyRange keys_of(std::size_t query) const {
    const auto b = static_cast<std::size_t>(queries.sequence[query]);
    const std::int64_t real = real_keys.empty() ? keys.offsets[b + 1] - keys.offsets[b] : real_keys[b];
    const std::int64_t position = queries.position[query];
    return {std::max<std::int64_t>(0, std::min(position - mask.before, real - 1)),
            std::min(position + mask.after + 1, real)};
  }

  Rows queries, keys;
  std::int64_t hidden;
  bert_hpc::ops::AttentionExtents extents;
  Vector<std::int64_t> samples;
  Vector<std::int32_t> real_keys;  // of each sequence; empty: all
  bert_hpc::core::Dropout dropout;
  bert_hpc::ops::AttentionMask mask{};
};

inline constexpr bert_hpc::ops::AttentionMask every_mask[] = {bert_hpc::ops::AttentionMask::full(),
                                                              bert_hpc::ops::AttentionMask::causal(),
                                                              bert_hpc::ops::AttentionMask::window(24)};

/// Numbers beyond 32 bits.
inline Vector<std::int64_t> large_samples(std::size_t sequences) {
  Vector<std::int64_t> samples;
  for (std::size_t b = 0; b < sequences; ++b) samples.push_back(static_cast<std::int64_t>(b) * 0x300000001 + 7);
  return samples;
}

/// Operands of attention's products.
struct OperandKind {
  OperandKind(DataType type_, bool tf32_ = false) : type(type_), tf32(tf32_) {}  // NOLINT: conversion on purpose
  std::string name() const { return tf32 ? "tf32" : bert_hpc::core::name_of(type); }
  DataType type;
  bool tf32;
};

struct AttentionCase : AttentionRows {
  /// q is a separate matrix; k and v are column ranges of one matrix, as a joint projection writes them. Rows begin at
  /// multiples of 16 bytes.
  AttentionCase(OperandKind kind, const std::vector<std::vector<int>>& query_positions, const std::vector<int>& lengths,
                std::int64_t heads, std::int64_t head_dim, float probability, std::int64_t first_head = 0)
      : AttentionRows(query_positions, lengths, heads, head_dim, probability, large_samples(lengths.size()),
                      first_head),
        type(kind.type),
        tf32(kind.tf32),
        q(StoredMatrix::random(type, queries.view().count, hidden, 1, 1.0f, 8)),
        kv(StoredMatrix::random(type, keys.view().count, 2 * hidden, 2)),
        d_out(StoredMatrix::random(type, queries.view().count, hidden, 3, 1.0f, 16)) {}
  bert_hpc::core::ConstMatrix k() const { return bert_hpc::core::ConstMatrix(kv).column_range(0, hidden); }
  bert_hpc::core::ConstMatrix v() const { return bert_hpc::core::ConstMatrix(kv).column_range(hidden, hidden); }

  bert_hpc::ops::AttentionInputs inputs() const { return inputs_of(q, k(), v()); }
  /// Turns the second half of each sequence's keys into padding, with larger scores than any real key has.
  void pad_from_the_middle() {
    for (std::size_t b = 0; b + 1 < keys.offsets.size(); ++b) {
      real_keys.push_back((keys.offsets[b + 1] - keys.offsets[b] + 1) / 2);
      for (std::int64_t j = keys.offsets[b] + real_keys[b]; j < keys.offsets[b + 1]; ++j) {
        for (std::int64_t column = 0; column < hidden; ++column) kv.set(j, column, 32.0f * kv(j, column));
      }
    }
  }

  DataType type;
  bool tf32;
  StoredMatrix q, kv, d_out;
};

inline std::vector<std::vector<int>> every_position(const std::vector<int>& lengths) {
  std::vector<std::vector<int>> positions;
  for (int length : lengths) {
    positions.emplace_back();
    for (int p = 0; p < length; ++p) positions.back().push_back(p);
  }
  return positions;
}

struct AttentionResults {
  explicit AttentionResults(const AttentionCase& c)
      : out(c.type, c.queries.view().count, c.hidden, 8),
        d_q(c.type, c.queries.view().count, c.hidden, 24),
        d_kv(c.type, c.keys.view().count, 2 * c.hidden, 8),
        lse(c.extents.heads, c.queries.view().count),
        kept_rows(c.extents.heads * ((c.extents.max_length + 63) / 64)),
        kept_words(static_cast<std::size_t>(kept_rows * c.queries.view().count)) {}
  bert_hpc::core::Matrix d_k() { return d_kv.view().column_range(0, d_kv.columns() / 2); }
  bert_hpc::core::Matrix d_v() { return d_kv.view().column_range(d_kv.columns() / 2, d_kv.columns() / 2); }
  bert_hpc::core::Tensor<std::uint64_t> kept() { return {kept_words.data(), kept_rows, out.rows()}; }
  StoredMatrix out, d_q, d_kv;
  Matrix lse;
  std::int64_t kept_rows;
  Vector<std::uint64_t> kept_words;  // dropout mask bits, stored by forward for backward
};

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

/// Counts elements of results that differ from the definition by more than their error bound. d_p − D is a difference
/// of sums below |d_p| + |D| + Σ|d_out·v|, with an error of 2e-6 of these in float.
class AttentionCheck {
 public:
  AttentionCheck(const AttentionCase& c, const AttentionResults& r)
      : c_(c), r_(r), errors_(AttentionErrors::of(c)), kv_(c.kv.floats()) {
    d_kv_.resize(static_cast<std::size_t>(c.keys.view().count * 2 * c.hidden));
    for (std::int64_t i = 0; i < c.queries.view().count; ++i) {
      for (std::int64_t head = 0; head < c.extents.heads; ++head) row(i, head);
    }
    for (std::int64_t j = 0; j < c.keys.view().count; ++j) {
      for (std::int64_t column = 0; column < 2 * c.hidden; ++column) {
        (column < c.hidden ? wrong_d_k : wrong_d_v) +=
            wrong(r.d_kv(j, column), d_kv_[static_cast<std::size_t>(j * 2 * c.hidden + column)]);
      }
    }
  }
  std::int64_t wrong_out = 0, wrong_lse = 0, wrong_d_q = 0, wrong_d_k = 0, wrong_d_v = 0;

 private:
  struct Sum {
    double value = 0.0, bound = 0.0;
    void add(double factor, double factor_bound, double x) {
      value += factor * x;
      bound += factor_bound * std::abs(x);
    }
  };

  std::int64_t wrong(double result, const Sum& expected) const {
    const double allowed = expected.bound + errors_.stored * std::abs(expected.value) + 0x1p-24;
    return std::abs(result - expected.value) <= allowed * 1.01 ? 0 : 1;  // NaN counts as wrong
  }

  double kept(std::size_t sequence, std::int64_t head, std::int64_t position, std::int64_t j) const {
    if (c_.dropout.probability == 0.0f) return 1.0;
    const std::uint32_t threshold = bert_hpc::ops::attention_dropout_threshold(c_.dropout.probability);
    const auto word = static_cast<std::uint32_t>((c_.extents.first_head + head) * (1 << 20) + position);
    const auto bits =
        bert_hpc::ops::dropout_bits(c_.dropout, c_.samples[sequence], word, bert_hpc::ops::attention_dropout_block(j));
    const int byte = bert_hpc::ops::attention_dropout_byte(j);
    return bert_hpc::ops::attention_dropout_keeps(bits, byte, threshold) ? 256.0 / (256.0 - threshold) : 0.0;
  }

  double kv(std::int64_t i, std::int64_t column) const {
    return kv_[static_cast<std::size_t>(i * 2 * c_.hidden + column)];
  }

  void row(std::int64_t i, std::int64_t head) {
    const std::int64_t d = c_.extents.head_dim, h = head * d;
    const auto row = static_cast<std::size_t>(i), width = static_cast<std::size_t>(d);
    const auto sequence = static_cast<std::size_t>(c_.queries.sequence[row]);
    const KeyRange range = c_.keys_of(row);
    const std::int64_t begin = c_.keys.offsets[sequence] + range.begin, length = range.end - range.begin;
    const double scale = 1.0 / std::sqrt(static_cast<double>(d));
    std::vector<double> q(width), d_o(width), p(static_cast<std::size_t>(length)), d_p(p), size(p), keep(p), error(p);
    double largest = -1e300, total = 0.0, dot = 0.0, dot_size = 0.0, largest_error = 0.0;
    for (std::size_t x = 0; x < width; ++x) {
      q[x] = c_.q(i, h + static_cast<std::int64_t>(x));
      d_o[x] = c_.d_out(i, h + static_cast<std::int64_t>(x));
      const double o = r_.out(i, h + static_cast<std::int64_t>(x));  // backward reads it as stored
      dot += d_o[x] * o;
      dot_size += std::abs(d_o[x] * o);
    }
    for (std::size_t j = 0; j < p.size(); ++j) {
      const std::int64_t at = begin + static_cast<std::int64_t>(j);
      for (std::size_t x = 0; x < width; ++x) {
        const double v = kv(at, c_.hidden + h + static_cast<std::int64_t>(x));
        p[j] += q[x] * kv(at, h + static_cast<std::int64_t>(x)) * scale;
        error[j] += std::abs(q[x] * kv(at, h + static_cast<std::int64_t>(x))) * scale * errors_.scores;
        d_p[j] += d_o[x] * v;
        size[j] += std::abs(d_o[x] * v);
      }
      keep[j] = kept(sequence, head, c_.queries.position[row], range.begin + static_cast<std::int64_t>(j));
      largest = std::max(largest, p[j]);
      largest_error = std::max(largest_error, error[j]);
    }
    for (double& s : p) total += s = std::exp(s - largest);
    const double lse = largest + std::log(total);
    wrong_lse += std::abs(r_.lse(head, i) - lse) <= errors_.weight + largest_error ? 0 : 1;
    std::vector<Sum> out(width), d_q(width);
    for (std::size_t j = 0; j < p.size(); ++j) {
      const std::int64_t at = begin + static_cast<std::int64_t>(j);
      p[j] /= total;
      const double weight = std::expm1(error[j] + largest_error) + errors_.weight;  // error of a probability
      const double probability = keep[j] * p[j];
      const double probability_bound = (errors_.products + weight) * probability + keep[j] * errors_.absolute;
      const double slope = p[j] * (keep[j] * d_p[j] - dot);
      const double slope_bound =
          (errors_.products + weight) * std::abs(slope) + errors_.absolute +
          (1.0 + weight) * p[j] * ((errors_.scores + 2e-6) * keep[j] * size[j] + 2e-6 * dot_size);
      for (std::size_t x = 0; x < width; ++x) {
        const std::int64_t column = h + static_cast<std::int64_t>(x);
        const auto place = static_cast<std::size_t>(at * 2 * c_.hidden + column);
        out[x].add(probability, probability_bound, kv(at, c_.hidden + column));
        d_q[x].add(scale * slope, scale * slope_bound, kv(at, column));
        d_kv_[place].add(scale * slope, scale * slope_bound, q[x]);
        d_kv_[place + static_cast<std::size_t>(c_.hidden)].add(probability, probability_bound, d_o[x]);
      }
    }
    for (std::size_t x = 0; x < width; ++x) {
      wrong_out += wrong(r_.out(i, h + static_cast<std::int64_t>(x)), out[x]);
      wrong_d_q += wrong(r_.d_q(i, h + static_cast<std::int64_t>(x)), d_q[x]);
    }
  }

  const AttentionCase& c_;
  const AttentionResults& r_;
  AttentionErrors errors_;
  std::vector<float> kv_;
  std::vector<Sum> d_kv_;
};

/// Checks results against the definition, and the padding of their rows.
inline void check_results(const AttentionCase& c, const AttentionResults& r) {
  const AttentionCheck wrong(c, r);
  CHECK(wrong.wrong_out == 0);
  CHECK(wrong.wrong_lse == 0);
  CHECK(wrong.wrong_d_q == 0);
  CHECK(wrong.wrong_d_k == 0);
  CHECK(wrong.wrong_d_v == 0);
  CHECK(r.out.padding_untouched());
  CHECK(r.d_q.padding_untouched());
  CHECK(r.d_kv.padding_untouched());
}

}  // namespace test
