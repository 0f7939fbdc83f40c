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

#include "blocked_steps.hpp"

namespace bert_hpc::ops::cpu {
namespace {

constexpr std::int64_t max_block_rows = 192;  // rows of the float block of C
constexpr std::int64_t block_columns = 256;

class Runner : BlockedSteps {
 public:
  Runner(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch)
      : BlockedSteps(kernels, product, scratch) {}

  // Called by every thread of a team. Each thread packs small operands for itself, which costs less than waiting for
  // another thread and fetching its data; all threads pack large operands together.
  void work(std::int64_t thread, std::int64_t threads) const {
    if (threads * step_size() <= std::min(scratch_.size, step_floats)) {
      work_separately(thread, threads);
    } else {
      work_together(thread, threads);
    }
  }

 private:
  void work_separately(std::int64_t thread, std::int64_t threads) const {
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

  // Whether A is read from a copy of its rows. Rows of bf16 are usable in place only if they consist of whole pairs at
  // a stride of whole pairs.
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
    const std::int64_t most = narrows_c() ? std::min(rows_of_block(), max_block_rows) : rows_of_block();
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
};

}  // namespace

const TileKernels& kernels_of([[maybe_unused]] InstructionSet set, [[maybe_unused]] core::DataType compute) {
#if defined(BERT_HPC_AMX_KERNELS)
  if (set == InstructionSet::x86_64_amx && compute == core::DataType::bf16) return x86_64_amx::pair_kernels();
#endif
#if defined(BERT_HPC_X86_KERNELS)
  if (set == InstructionSet::x86_64_v4_bf16 || set == InstructionSet::x86_64_amx) {
    return compute == core::DataType::bf16 ? x86_64_v4_bf16::pair_kernels() : x86_64_v4_bf16::tile_kernels();
  }
  if (set == InstructionSet::x86_64_v4) return x86_64_v4::tile_kernels();
  if (set == InstructionSet::x86_64_v3) return x86_64_v3::tile_kernels();
#endif
  return baseline::tile_kernels();
}

Source source_of(core::DataType type) {
  return type == core::DataType::bf16 ? Source::bf16 : type == core::DataType::fp16 ? Source::fp16 : Source::fp32;
}

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
  return kernels.row_block + max_block_rows * block_columns;
}

void run_alone(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch) {
  Runner(kernels, product, scratch).work(0, 1);
}

void run(const TileKernels& kernels, const BlockedProduct& product, const ProductScratch& scratch) {
  const Runner runner(kernels, product, scratch);
  const int most = omp_get_max_threads();
  const int threads = rounds(product) ? std::min(most, static_cast<int>(scratch.threads)) : most;
  // GCC's OpenMP would allocate a team of one thread each time.
  if (product.m * product.n * product.k < min_shared_work || threads == 1) {
    runner.work(0, 1);
    return;
  }
#pragma omp parallel num_threads(threads)
  runner.work(omp_get_thread_num(), omp_get_num_threads());
}

}  // namespace bert_hpc::ops::cpu
