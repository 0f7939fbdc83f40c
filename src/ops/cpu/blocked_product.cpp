// Blocks are sized for three cache levels: a panel of B for the first, a block of A's rows for the second, the packed
// operands of a step for the last (Goto and van de Geijn 2008). Blocking does not change any bit of the result; see
// tile_kernels.hpp. The row sums of A are likewise one chain per row.
//
// If A is read in place but is not a row of words (tile_kernels.hpp), or if C is stored in 16 bits, a block of A's rows
// or a block of C goes through a thread's own memory. This memory fits into the second-level cache, and C is rounded
// once, when its chains are complete.
//
// Lengths and positions along k count words here, except where they refer to operands and packing.
#include "blocked_product.hpp"

#include <omp.h>

#include <algorithm>

#include "blocking.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t most_block_rows = 192;  // rows of the float block of C
constexpr std::int64_t block_columns = 256;
constexpr std::int64_t smallest_shared = std::int64_t{1} << 18;  // multiply-adds that justify waking threads

// A part of a step; rows and columns count from the beginning of the step.
struct Part {
  Range rows, columns;
};

// One step: the gemm of rows `m`, columns `n` and words `k` of terms, with its packed operands.
struct Step {
  Range m, n, k;
  float *a, *b;
};

const void* element(const void* data, Source source, std::int64_t index) {
  return static_cast<const char*>(data) + index * bytes_of(source);
}
void* element(void* data, Source source, std::int64_t index) {
  return static_cast<char*>(data) + index * bytes_of(source);
}

bool rounds(const BlockedProduct& p) {
  return p.a_source != Source::fp32 || p.b_source != Source::fp32 || p.c_source != Source::fp32;
}

class Runner {
 public:
  Runner(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch)
      : kernels_(kernels),
        p_(product),
        words_(kernels.words(p_.k)),
        blocking_(blocking_of(kernels, p_.m, p_.n, words_, p_.a_transposed, rounds(p_))),
        m_steps_(divide_up(p_.m, blocking_.m_step)),
        n_steps_(divide_up(p_.n, blocking_.n_step)),
        k_steps_(divide_up(words_, blocking_.k_step)),
        scratch_(scratch) {}

  // Called by every thread of a team. Each thread packs small operands for itself, which costs less than waiting for
  // another thread and fetching its data; all threads pack large operands together.
  void work(std::int64_t thread, std::int64_t threads) const {
    if (threads * step_size() <= std::min(scratch_.size, step_floats)) {
      work_apart(thread, threads);
    } else {
      work_together(thread, threads);
    }
  }

 private:
  std::int64_t steps() const { return m_steps_ * n_steps_ * k_steps_; }

  void work_apart(std::int64_t thread, std::int64_t threads) const {
    for (std::int64_t index = 0; index < steps(); ++index) {
      const Step s = step(index, scratch_.data + thread * step_size());
      const Part own = own_part(s, thread, threads);
      pack_columns(s, own.columns);
      pack_rows(s, own.rows);
      if (own.columns.begin == 0) sum_rows(s, own.rows);
      multiply(s, own, thread);
    }
  }

  // Double buffering: while some threads still multiply one step, others already pack the next one into the other half
  // of scratch. One barrier per step suffices.
  void work_together(std::int64_t thread, std::int64_t threads) const {
    const auto half = [&](std::int64_t index) { return step(index, scratch_.data + index % 2 * step_size()); };
    const auto pack = [&](const Step& s) {
      const Range rows = part_of(s.m.size(), kernels_.rows, thread, threads);
      pack_columns(s, part_of(s.n.size(), kernels_.columns, thread, threads));
      pack_rows(s, rows);
      sum_rows(s, rows);
    };
    pack(half(0));
    for (std::int64_t index = 0; index < steps(); ++index) {
#pragma omp barrier
      const Step s = half(index);
      multiply(s, own_part(s, thread, threads), thread);
      if (index + 1 < steps()) pack(half(index + 1));
    }
  }

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
  std::int64_t b_floats() const {
    return padded_columns(blocking_.n_step) * std::min(words_, blocking_.k_step);
  }
  std::int64_t step_size() const {
    const std::int64_t a_floats = p_.a_transposed ? row_panels(blocking_.m_step, blocking_.k_block) : 0;
    return round_up(a_floats + b_floats(), 16);
  }

  Range terms_of(Range words) const {
    return {words.begin * kernels_.terms, std::min(p_.k, words.end * kernels_.terms)};
  }
  std::int64_t padded_columns(std::int64_t count) const {
    return round_up(count, kernels_.columns);
  }
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

  // Is A read from a copy of its rows? Rows of bf16 are usable in place only if they consist of whole pairs at a stride
  // of whole pairs.
  bool copies_a() const {
    if (p_.a_transposed) return false;
    if (kernels_.terms == 1) return p_.a_source != Source::fp32;
    return p_.a_source != Source::bf16 || p_.k % kernels_.terms != 0 || p_.a_stride % kernels_.terms != 0;
  }
  bool narrows_c() const {
    return p_.c_source != Source::fp32;
  }

  void multiply(const Step& s, const Part& part, std::int64_t thread) const {
    const auto& [rows, columns] = part;
    if (columns.size() == 0) return;
    const std::int64_t most = narrows_c() ? std::min(rows_of_block(), most_block_rows) : rows_of_block();
    const std::int64_t blocks = divide_up(rows.size(), most);
    for (std::int64_t index = 0; index < blocks; ++index) {
      const Range block = part_of(rows.size(), kernels_.rows, index, blocks);
      const Range block_rows{rows.begin + block.begin, rows.begin + block.end};
      if (copies_a() || narrows_c()) {
        multiply_through_blocks(s, block_rows, columns, scratch_.blocks + thread * block_floats(kernels_));
        continue;
      }
      for (std::int64_t k = s.k.begin; k < s.k.end; k += blocking_.k_block) {
        kernels_.multiply(block_job(s, block_rows, columns, k));
      }
    }
  }

  // As above through this thread's own memory, a few columns at a time.
  void multiply_through_blocks(const Step& s, Range rows, Range columns, float* blocks) const {
    float* const c = blocks + kernels_.row_block;
    for (std::int64_t begin = columns.begin; begin < columns.end; begin += block_columns) {
      const Range here{begin, std::min(columns.end, begin + block_columns)};
      for (std::int64_t k = s.k.begin; k < s.k.end; k += blocking_.k_block) {
        TileJob job = block_job(s, rows, here, k);
        if (copies_a()) copy_rows(s, rows, k, blocks, job);
        if (narrows_c()) {
          job.c = c;
          job.c_stride = block_columns;
          if (job.begin == Begin::existing && k == s.k.begin)
            kernels_.of(p_.c_source).load_block(result(s, rows, here, c));
        }
        kernels_.multiply(job);
      }
      if (!narrows_c()) continue;
      BlockJob stored = result(s, rows, here, c);
      if (s.k.end == words_) stored.end = p_.end;
      kernels_.of(p_.c_source).store_block(stored);
    }
  }

  // Copies the rows of A that `job` reads, job.k words of each.
  void copy_rows(const Step& s, Range rows, std::int64_t k, float* to, TileJob& job) const {
    const Range terms = terms_of({k, k + job.k});
    PackJob copied;
    copied.from = element(p_.a, p_.a_source, (s.m.begin + rows.begin) * p_.a_stride + terms.begin);
    copied.stride = p_.a_stride;
    copied.length = terms.size();
    copied.count = rows.size();
    copied.to = to;
    copied.panel_stride = job.k;
    kernels_.of(p_.a_source).copy_rows(copied);
    job.a = to;
    job.a_stride = job.k;
  }

  // The location where a block of C is stored.
  BlockJob result(const Step& s, Range rows, Range columns, float* block) const {
    const std::int64_t row = s.m.begin + rows.begin, column = s.n.begin + columns.begin;
    BlockJob job;
    job.block = block;
    job.block_stride = block_columns;
    job.rows = rows.size();
    job.columns = columns.size();
    job.stored = element(p_.c, p_.c_source, row * p_.c_stride + column);
    job.stride = p_.c_stride;
    if (p_.second != nullptr) job.second = element(p_.second, p_.c_source, row * p_.second_stride + column);
    job.second_stride = p_.second_stride;
    return job;
  }

  // Number of A's rows that fill their share of the second-level cache, in whole panels.
  std::int64_t rows_of_block() const {
    return std::max<std::int64_t>(1, kernels_.row_block / kernels_.row_panel_words(blocking_.k_block)) * kernels_.rows;
  }

  // Rows and columns count from the beginning of the step; words [k, k + block). Leaves out an A that is copied and a C
  // that is rounded.
  TileJob block_job(const Step& s, Range rows, Range columns, std::int64_t k) const {
    const std::int64_t row = s.m.begin + rows.begin, column = s.n.begin + columns.begin;
    TileJob job;
    job.m = rows.size();
    job.n = columns.size();
    job.k = std::min(blocking_.k_block, s.k.end - k);
    job.a_packed = p_.a_transposed;
    job.a_stride = job.a_packed ? kernels_.row_panel_words(job.k) : p_.a_stride / kernels_.terms;
    if (job.a_packed) {
      job.a = s.a + rows.begin / kernels_.rows * job.a_stride;
    } else if (!copies_a()) {
      job.a = static_cast<const float*>(element(p_.a, p_.a_source, row * p_.a_stride)) + k;
    }
    job.b = s.b + (k - s.k.begin) * padded_columns(s.n.size()) + columns.begin * job.k;
    job.b_stride = kernels_.columns * job.k;
    job.begin = k == 0 ? p_.begin : Begin::existing;
    if (job.begin == Begin::bias) job.bias = p_.bias + column;
    if (narrows_c()) return job;
    job.c = static_cast<float*>(p_.c) + row * p_.c_stride + column;
    job.c_stride = p_.c_stride;
    if (k + job.k == words_ && p_.end != End::nothing) {
      job.end = p_.end;
      job.second = static_cast<float*>(p_.second) + row * p_.second_stride + column;
      job.second_stride = p_.second_stride;
    }
    return job;
  }

  const TileKernels& kernels_;
  const BlockedProduct& p_;
  std::int64_t words_;  // along k
  Blocking blocking_;
  std::int64_t m_steps_, n_steps_, k_steps_;
  const ProductScratch& scratch_;
};

}  // namespace

std::int64_t scratch_floats(const TileKernels& kernels, std::int64_t m, std::int64_t n, std::int64_t k,
                            bool a_transposed, bool rounds, std::int64_t threads) {
  // Upper bounds that grow with every extent, whereas blocking_of() may choose less for a larger extent.
  const std::int64_t words = kernels.words(k);
  const std::int64_t length = std::min(words, a_transposed ? longest_block : longest_step_of(kernels, rounds));
  const std::int64_t b = round_up(n, kernels.columns) * length;
  const std::int64_t a = a_transposed ? divide_up(m, kernels.rows) * kernels.row_panel_words(length) : 0;
  const bool single = words <= length && a <= step_floats && b <= step_floats;
  const std::int64_t one = round_up(std::min(a, step_floats) + std::min(b, step_floats), 16);
  const std::int64_t together = (single ? 1 : 2) * one;
  return std::max(together, std::min(threads * one, step_floats));
}

std::int64_t block_floats(const TileKernels& kernels) {
  return kernels.row_block + most_block_rows * block_columns;
}

void run(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch) {
  const Runner runner(kernels, product, scratch);
  const int most = omp_get_max_threads();
  const int threads = rounds(product) ? std::min(most, static_cast<int>(scratch.threads)) : most;
  // GCC's OpenMP would allocate a team of one thread each time.
  if (product.m * product.n * product.k < smallest_shared || threads == 1) {
    runner.work(0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  runner.work(omp_get_thread_num(), omp_get_num_threads());
}

}  // namespace bert_hpc::ops::cpu
