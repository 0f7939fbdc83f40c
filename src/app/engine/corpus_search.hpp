// Exact search of documents by matrix products: the cosines or dot products of all queries with a block of the corpus
// at a time. Ranks take blocks of their own; blocks depend on the corpus alone, so that any number of ranks finds the
// same documents with the same bits of their scores.
#pragma once

#include <cstdint>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/engine/embedding_rows.hpp"
#include "app/engine/memory_plan.hpp"
#include "bert_hpc/comm/communicator.hpp"
#include "bert_hpc/core/buffer.hpp"
#include "bert_hpc/ops/best_rows.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::app {

struct SearchSize {
  std::int64_t queries = 0, documents = 0, columns = 0;
  std::int64_t top_k = 0;  ///< documents that are kept of each query
};

/// Documents of a block, and queries that are compared with it at once: scores of 8 MiB.
inline constexpr std::int64_t search_block = 4096, queries_at_once = 512;

/// Blocks of the corpus that a rank takes, [first, last): neighbours, so that each file is read by few ranks. Pure.
struct BlockRange {
  std::int64_t first = 0, last = 0;
};
BlockRange blocks_of_rank(std::int64_t documents, int rank, int ranks);

/// The best documents of each query in host memory: (queries, top_k) by falling score, of equal scores by rising
/// number; −1 and −∞ behind the last document.
struct FoundDocuments {
  std::vector<std::int32_t> numbers;
  std::vector<float> scores;
};

/// Merges lists of `top_k` documents each. Those of `more` have larger numbers. Pure.
void merge_found(std::int64_t top_k, const FoundDocuments& more, FoundDocuments& found);

/// Collective. Rank 0 gets the lists of all ranks, merged; those of a higher rank have larger numbers.
void merge_on_root(comm::Communicator& world, std::int64_t top_k, FoundDocuments& found);

class CorpusSearch {
 public:
  /// `corpus` and `documents` (the sequences that are documents) must outlive it. `products`, `settings`: as
  /// ops::make_matrix_product() has them.
  CorpusSearch(const SearchSize& size, EmbeddingRows& corpus, std::span<const std::int64_t> documents,
               const std::string& products, const ops::ProductSettings& settings);

  /// What a rank takes.
  static MemoryPlan memory(const SearchSize& size);

  std::string products() const { return products_->name(); }
  /// (queries, columns) in memory where kernels run: the caller fills it before the first block.
  core::Tensor<float> queries() const { return {queries_.data(), size_.queries, size_.columns}; }

  /// Compares the documents of a block with all queries. A thread reads the block `next` meanwhile; −1: none. Throws
  /// Error(data).
  void add(std::int64_t block, std::int64_t next);

  /// Results for all blocks that were added.
  FoundDocuments found() const;

 private:
  std::span<const std::int64_t> documents_of(std::int64_t block) const;
  void start_reading(std::int64_t block);

  SearchSize size_;
  EmbeddingRows& corpus_;
  std::span<const std::int64_t> documents_;
  std::unique_ptr<ops::MatrixProduct> products_;
  core::Buffer<float> queries_, block_, scores_;
  core::Buffer<float> read_[2];  // host memory: the block that is read, and the one that is copied
  core::Buffer<float> best_scores_;
  core::Buffer<std::int32_t> best_numbers_;
  ops::BestRows best_;
  int slot_ = 0;                     // of read_, that is read next
  std::int64_t block_in_read_ = -1;  // that is being read
  std::future<void> reading_;        // last: destroyed, and so waited for, first
};

}  // namespace bert_hpc::app
