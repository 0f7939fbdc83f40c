#include "app/engine/corpus_search.hpp"

#include <algorithm>
#include <limits>

#include "bert_hpc/core/device_memory.hpp"

namespace bert_hpc::app {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
  return (a + b - 1) / b;
}

}  // namespace

BlockRange blocks_of_rank(std::int64_t documents, int rank, int ranks) {
  const std::int64_t blocks = divide_up(documents, search_block);
  return {blocks * rank / ranks, blocks * (rank + 1) / ranks};
}

void merge_found(std::int64_t top_k, const FoundDocuments& more, FoundDocuments& found) {
  const auto k = static_cast<std::size_t>(top_k);
  FoundDocuments merged;
  merged.numbers.reserve(found.numbers.size());
  merged.scores.reserve(found.scores.size());
  for (std::size_t begin = 0; begin < found.numbers.size(); begin += k) {
    std::size_t a = begin, b = begin;
    for (std::size_t i = 0; i < k; ++i) {
      const bool is_more = more.scores[b] > found.scores[a];
      const FoundDocuments& from = is_more ? more : found;
      const std::size_t at = is_more ? b++ : a++;
      merged.numbers.push_back(from.numbers[at]);
      merged.scores.push_back(from.scores[at]);
    }
  }
  found = std::move(merged);
}

void merge_on_root(comm::Communicator& world, std::int64_t top_k, FoundDocuments& found) {
  const std::size_t all = found.numbers.size();
  const std::size_t lists_of_message =
      std::max<std::size_t>(1, (std::size_t{16} << 20) / static_cast<std::size_t>(top_k));
  const std::size_t at_once = lists_of_message * static_cast<std::size_t>(top_k);
  // A message has whole lists, some tens of MiB.
  const auto each_part = [&](auto&& work) {
    for (std::size_t begin = 0; begin < all; begin += at_once) work(begin, std::min(at_once, all - begin));
  };
  // Along a binary tree, in which the partner's documents come behind this rank's.
  for (int distance = 1; distance < world.size(); distance *= 2) {
    if (world.rank() % (2 * distance) == distance) {
      each_part([&](std::size_t begin, std::size_t count) {
        world.send(std::as_bytes(std::span(found.numbers).subspan(begin, count)), world.rank() - distance);
        world.send(std::as_bytes(std::span(found.scores).subspan(begin, count)), world.rank() - distance);
      });
      return;
    }
    const int partner = world.rank() + distance;
    if (partner >= world.size()) continue;
    FoundDocuments more{std::vector<std::int32_t>(all), std::vector<float>(all)};
    each_part([&](std::size_t begin, std::size_t count) {
      world.receive(std::as_writable_bytes(std::span(more.numbers).subspan(begin, count)), partner);
      world.receive(std::as_writable_bytes(std::span(more.scores).subspan(begin, count)), partner);
    });
    merge_found(top_k, more, found);
  }
}

MemoryPlan CorpusSearch::memory(const SearchSize& size) {
  constexpr std::int64_t number = sizeof(float), copies = 3;  // of a block: read, copied, compared
  return {{"queries", size.queries * size.columns * number},
          {"results", 2 * size.queries * size.top_k * (number + std::int64_t{sizeof(std::int32_t)})},
          {"blocks", copies * search_block * size.columns * number},
          {"scores", std::min(size.queries, queries_at_once) * search_block * number}};
}

CorpusSearch::CorpusSearch(const SearchSize& size, EmbeddingRows& corpus, std::span<const std::int64_t> documents,
                           const std::string& products, const ops::ProductSettings& settings)
    : size_(size),
      corpus_(corpus),
      documents_(documents),
      products_(ops::make_matrix_product(products, settings)),
      queries_(size.queries * size.columns),
      block_(search_block * size.columns),
      scores_(std::min(size.queries, queries_at_once) * search_block),
      read_{core::Buffer<float>(search_block * size.columns, core::MemoryKind::host),
            core::Buffer<float>(search_block * size.columns, core::MemoryKind::host)},
      best_scores_(size.queries * size.top_k),
      best_numbers_(size.queries * size.top_k),
      best_{best_scores_.data(), best_numbers_.data(), size.queries, size.top_k} {
  products_->reserve({.rows = std::min(size.queries, queries_at_once), .in = size.columns, .out = search_block});
  ops::clear_best_rows(best_);
}

std::span<const std::int64_t> CorpusSearch::documents_of(std::int64_t block) const {
  const std::int64_t first = block * search_block;
  const std::int64_t count = std::min(search_block, std::ssize(documents_) - first);
  return documents_.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(count));
}

void CorpusSearch::start_reading(std::int64_t block) {
  block_in_read_ = block;
  reading_ = std::async(std::launch::async, [this, documents = documents_of(block), to = read_[slot_].data()] {
    corpus_.read(documents, {to, documents.size() * static_cast<std::size_t>(size_.columns)});
  });
}

void CorpusSearch::add(std::int64_t block, std::int64_t next) {
  if (block_in_read_ != block) start_reading(block);
  reading_.get();
  const std::int64_t count = std::ssize(documents_of(block));
  core::start_copy_to_device(read_[slot_].data(), block_.data(),
                             static_cast<std::size_t>(count * size_.columns) * sizeof(float));
  slot_ = 1 - slot_;
  block_in_read_ = -1;
  if (next >= 0) start_reading(next);
  const core::Tensor<const float> documents(block_.data(), count, size_.columns);
  for (std::int64_t begin = 0; begin < size_.queries; begin += queries_at_once) {
    const std::int64_t queries = std::min(queries_at_once, size_.queries - begin);
    const core::Tensor<float> scores(scores_.data(), queries, count);
    products_->forward(this->queries().row_range(begin, queries), documents, {}, scores);
    ops::keep_best_rows(scores, static_cast<std::int32_t>(block * search_block),
                        {best_.scores + begin * best_.k, best_.numbers + begin * best_.k, queries, best_.k});
  }
  core::wait_for_kernels();
}

FoundDocuments CorpusSearch::found() const {
  const auto all = static_cast<std::size_t>(size_.queries * size_.top_k);
  FoundDocuments found{std::vector<std::int32_t>(all), std::vector<float>(all)};
  core::copy_to_host(best_numbers_.data(), found.numbers.data(), all * sizeof(std::int32_t));
  core::copy_to_host(best_scores_.data(), found.scores.data(), all * sizeof(float));
  return found;
}

}  // namespace bert_hpc::app
