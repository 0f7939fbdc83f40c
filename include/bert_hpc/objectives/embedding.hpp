// Embeddings of texts: settings, checks of the data, and figures of an evaluation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"

namespace bert_hpc::objectives {

/// [task] of embeddings.
struct EmbeddingSettings {
  double scale = 20;
  bool symmetric = false;
  double low = 0, high = 1;  ///< range of scores
  bool reads_scores = false;
  std::vector<std::int64_t> dimensions{};  ///< numbers of first columns whose losses are added; empty: all columns
};

EmbeddingSettings embedding_settings(const config::Task& task);

/// groups (rows + 1): texts of each row; scores (texts), or empty. place: a text in words. Throws Error(data) if a row
/// lacks texts, or the rows lack scores that the loss reads, and Error(input) if it reads one outside of the range.
void require_texts_of_rows(const EmbeddingSettings& settings, std::span<const std::int64_t> groups,
                           std::span<const float> scores, const std::function<std::string(std::int64_t)>& place);

double cosine_of(std::span<const float> a, std::span<const float> b);

/// Rows of a block of an evaluation, neighbours in the data, of which each is a negative of the others.
inline constexpr std::int64_t embedding_block = 64;

/// Loss of in-batch negatives and ranks of positives, block by block, in double precision.
class BlockScorer {
 public:
  BlockScorer(double scale, bool symmetric) : scale_(scale), symmetric_(symmetric) {}

  /// The next text. A row is its anchor, its positive and negatives.
  void add(std::span<const float> embedding, bool is_anchor);
  /// Ends the block, which may be empty.
  void finish();

  struct Sums {
    double loss = 0, anchors = 0, reciprocal_ranks = 0;
    double first = 0;  ///< anchors whose positive is nearer than all other candidates of the block
  };
  const Sums& sums() const { return sums_; }

 private:
  static double loss_of(std::span<const double> logits);

  double scale_;
  bool symmetric_;
  std::vector<float> embeddings_;
  std::vector<double> lengths_;       // of the block's embeddings
  std::vector<std::size_t> anchors_;  // rows of the block
  Sums sums_;
};

}  // namespace bert_hpc::objectives
