// An attention problem on matrices of any type with its results, and the expected results: a double-precision loop over
// the same numbers, with an error bound per element for kernels on tensor cores.
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <optional>
#include <string>

#include "bert_hpc/ops/attention.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"
#include "support/sample_tensors.hpp"
#include "support/stored_matrix.hpp"

namespace bert_hpc::test {

/// Keys of a sequence.
struct KeyRange {
  std::int64_t begin, end;
};

/// A position bias of random numbers in T5's buckets.
class BiasValues {
 public:
  BiasValues(std::int64_t heads, std::int32_t buckets, std::int32_t max_distance, std::int32_t reach,
             float scale = 1.0f)
      : table_(Matrix::random(heads, buckets, 4, scale)), reach_(reach) {
    for (const std::int32_t bucket : bert_hpc::ops::t5_buckets(buckets, max_distance, reach)) bucket_.push_back(bucket);
  }
  bert_hpc::ops::PositionBias view() const { return {{bucket_.data(), reach_}, table_.tensor()}; }
  /// For code that computes on the host.
  bert_hpc::ops::PositionBias host_view() const { return {{bucket_.host(), reach_}, table_.host()}; }

 private:
  Matrix table_;
  Vector<std::int32_t> bucket_;
  std::int32_t reach_;
};

/// Random keys and queries of distances in DeBERTa's buckets.
class RelativeValues {
 public:
  RelativeValues(DataType type, std::int64_t hidden, std::int32_t span, std::int32_t max_distance, std::int32_t reach)
      : keys_(StoredMatrix::random(type, 2 * span, hidden, 5)),
        queries_(StoredMatrix::random(type, 2 * span, hidden, 6, 1.0f, 8)),
        reach_(reach) {
    for (const std::int32_t bucket : bert_hpc::ops::deberta_buckets(span, max_distance, reach)) {
      bucket_.push_back(bucket);
    }
  }
  bert_hpc::ops::RelativePositions view() const { return {keys_, queries_, {bucket_.data(), reach_}}; }
  const StoredMatrix& keys() const { return keys_; }
  const StoredMatrix& queries() const { return queries_; }
  bert_hpc::ops::DistanceBuckets host_buckets() const { return {bucket_.host(), reach_}; }

 private:
  StoredMatrix keys_, queries_;
  Vector<std::int32_t> bucket_;
  std::int32_t reach_;
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
            .real_keys = real_keys.empty() ? nullptr : real_keys.data(),
            .bias = bias ? bias->view() : bert_hpc::ops::PositionBias{},
            .relative = relative ? relative->view() : bert_hpc::ops::RelativePositions{}};
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
  std::optional<BiasValues> bias{};
  std::optional<RelativeValues> relative{};
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
        kept_words(static_cast<std::size_t>(kept_rows * c.queries.view().count)),
        d_relative_keys(c.relative ? 2 * c.keys.view().count : 0, c.hidden),
        d_relative_queries(c.relative ? 2 * c.keys.view().count : 0, c.hidden) {}
  bert_hpc::core::Matrix d_k() { return d_kv.view().column_range(0, d_kv.columns() / 2); }
  bert_hpc::core::Matrix d_v() { return d_kv.view().column_range(d_kv.columns() / 2, d_kv.columns() / 2); }
  bert_hpc::core::Tensor<std::uint64_t> kept() { return {kept_words.data(), kept_rows, out.rows()}; }
  StoredMatrix out, d_q, d_kv;
  Matrix lse;
  std::int64_t kept_rows;
  Vector<std::uint64_t> kept_words;  // dropout mask bits, stored by forward for backward
  Matrix d_relative_keys, d_relative_queries;
};

/// Counts elements of results that differ from the definition by more than their error bound (attention_check.cpp).
struct AttentionCheck {
  /// `d_bias`: as of ops::AttentionGradients; null: not checked.
  AttentionCheck(const AttentionCase& c, const AttentionResults& r, const Matrix* d_bias = nullptr);
  std::int64_t wrong_out = 0, wrong_lse = 0, wrong_d_q = 0, wrong_d_k = 0, wrong_d_v = 0, wrong_d_bias = 0;
  std::int64_t wrong_d_relative_keys = 0, wrong_d_relative_queries = 0;  ///< if the case has relative positions
};

/// Checks results against the definition, and the padding of their rows.
inline void check_results(const AttentionCase& c, const AttentionResults& r, const Matrix* d_bias = nullptr) {
  const AttentionCheck wrong(c, r, d_bias);
  CHECK(wrong.wrong_d_bias == 0);
  CHECK(wrong.wrong_d_relative_keys == 0);
  CHECK(wrong.wrong_d_relative_queries == 0);
  CHECK(wrong.wrong_out == 0);
  CHECK(wrong.wrong_lse == 0);
  CHECK(wrong.wrong_d_q == 0);
  CHECK(wrong.wrong_d_k == 0);
  CHECK(wrong.wrong_d_v == 0);
  CHECK(r.out.padding_untouched());
  CHECK(r.d_q.padding_untouched());
  CHECK(r.d_kv.padding_untouched());
}

}  // namespace bert_hpc::test
