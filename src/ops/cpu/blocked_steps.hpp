// The steps of a blocked product: how it is divided, how operands are packed, and which part a thread computes.
#pragma once

#include <algorithm>
#include <cstdint>

#include "blocked_product.hpp"
#include "blocking.hpp"

namespace bert_hpc::ops::cpu {

// A part of a step; rows and columns count from the beginning of the step.
struct Part {
  Range rows, columns;
};

// One step: the gemm of rows `m`, columns `n` and words `k` of terms, with its packed operands.
struct Step {
  Range m, n, k;
  float *a, *b;
};

inline const void* element(const void* data, Source source, std::int64_t index) {
  return static_cast<const char*>(data) + index * bytes_of(source);
}
inline void* element(void* data, Source source, std::int64_t index) {
  return static_cast<char*>(data) + index * bytes_of(source);
}

inline bool rounds(const BlockedProduct& p) {
  return p.a_source != Source::fp32 || p.b_source != Source::fp32 || p.c_source != Source::fp32;
}

class BlockedSteps {
 protected:
  BlockedSteps(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch)
      : kernels_(kernels),
        p_(product),
        words_(kernels.words(p_.k)),
        blocking_(blocking_of(kernels, p_.m, p_.n, words_, p_.a_transposed, rounds(p_))),
        m_steps_(divide_up(p_.m, blocking_.m_step)),
        n_steps_(divide_up(p_.n, blocking_.n_step)),
        k_steps_(divide_up(words_, blocking_.k_step)),
        scratch_(scratch) {}

  std::int64_t steps() const { return m_steps_ * n_steps_ * k_steps_; }

  Step step(std::int64_t index, float* packed) const {
    const auto range = [](std::int64_t i, std::int64_t length, std::int64_t extent) {
      return Range{i * length, std::min(extent, (i + 1) * length)};
    };
    Step s;
    s.m = range(index % m_steps_, blocking_.m_step, p_.m);
    s.k = range(index / m_steps_ % k_steps_, blocking_.k_step, words_);
    s.n = range(index / m_steps_ / k_steps_, blocking_.n_step, p_.n);
    s.b = packed;
    s.a = packed + b_floats();
    return s;
  }

  // Size of the packed B of a step.
  std::int64_t b_floats() const { return padded_columns(blocking_.n_step) * std::min(words_, blocking_.k_step); }
  std::int64_t step_size() const {
    const std::int64_t a_floats = p_.a_transposed ? row_panels(blocking_.m_step, blocking_.k_block) : 0;
    return round_up(a_floats + b_floats(), 16);
  }

  Range terms_of(Range words) const {
    return {words.begin * kernels_.terms, std::min(p_.k, words.end * kernels_.terms)};
  }
  std::int64_t padded_columns(std::int64_t count) const { return round_up(count, kernels_.columns); }
  std::int64_t row_panels(std::int64_t count, std::int64_t length) const {
    return divide_up(count, kernels_.rows) * kernels_.row_panel_words(length);
  }

  // Packs whole panels of each block over k.
  void pack_columns(const Step& s, Range columns) const {
    for (std::int64_t k = s.k.begin; k < s.k.end && columns.size() > 0; k += blocking_.k_block) {
      const std::int64_t words = std::min(blocking_.k_block, s.k.end - k);
      const Range terms = terms_of({k, k + words});
      PackJob job;
      job.length = terms.size();
      job.count = columns.size();
      job.stride = p_.b_stride;
      job.panel_stride = kernels_.columns * words;
      job.to = s.b + (k - s.k.begin) * padded_columns(s.n.size()) + columns.begin * words;
      const std::int64_t column = s.n.begin + columns.begin;
      const SourceKernels& source = kernels_.of(p_.b_source);
      job.from = element(p_.b, p_.b_source,
                         p_.b_transposed ? column * p_.b_stride + terms.begin : terms.begin * p_.b_stride + column);
      (p_.b_transposed ? source.pack_columns_transposed : source.pack_columns)(job);
    }
  }

  // A step with packed A is one block over k.
  void pack_rows(const Step& s, Range rows) const {
    if (!p_.a_transposed || rows.size() == 0) return;
    const Range terms = terms_of(s.k);
    PackJob job;
    job.length = terms.size();
    job.count = rows.size();
    job.stride = p_.a_stride;
    job.panel_stride = kernels_.row_panel_words(s.k.size());
    job.to = s.a + rows.begin / kernels_.rows * job.panel_stride;
    job.from = element(p_.a, p_.a_source, terms.begin * p_.a_stride + s.m.begin + rows.begin);
    kernels_.of(p_.a_source).pack_rows_transposed(job);
  }

  void sum_rows(const Step& s, Range rows) const {
    if (p_.a_sums == nullptr || s.n.begin > 0 || rows.size() == 0) return;
    float* sums = p_.a_sums + s.m.begin + rows.begin;
    if (s.k.begin == 0 && p_.begin == Begin::zero) std::fill_n(sums, rows.size(), 0.0f);
    const Range terms = terms_of(s.k);
    const void* from = element(p_.a, p_.a_source, terms.begin * p_.a_stride + s.m.begin + rows.begin);
    kernels_.of(p_.a_source).add_column_sums(from, p_.a_stride, terms.size(), rows.size(), sums);
  }

  // The rectangle of C that a thread computes in a step.
  Part own_part(const Step& s, std::int64_t thread, std::int64_t threads) const {
    const Grid grid = grid_of(threads, divide_up(s.m.size(), kernels_.rows), divide_up(s.n.size(), kernels_.columns));
    if (thread >= grid.rows * grid.columns) return {{0, 0}, {s.n.size(), s.n.size()}};
    return {part_of(s.m.size(), kernels_.rows, thread / grid.columns, grid.rows),
            part_of(s.n.size(), kernels_.columns, thread % grid.columns, grid.columns)};
  }

  const TileKernels& kernels_;
  const BlockedProduct& p_;
  std::int64_t words_;  // along k
  Blocking blocking_;
  std::int64_t m_steps_, n_steps_, k_steps_;
  const ProductScratch& scratch_;
};

}  // namespace bert_hpc::ops::cpu
