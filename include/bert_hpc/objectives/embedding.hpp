// Embeddings of texts: settings, checks of the data, and figures of an evaluation. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/ops/text_group_loss.hpp"

namespace bert_hpc::objectives {

/// [task] of embeddings.
struct EmbeddingSettings {
  enum class Loss { multiple_negatives, cosine_similarity, triplet, margin_mse };
  Loss loss = Loss::multiple_negatives;
  double scale = 20;
  bool symmetric = false, skips_duplicates = false;
  double low = 0, high = 1;  ///< range of scores that become numbers from 0 to 1
  ops::Similarity similarity = ops::Similarity::cosine;
  double margin = 0.5;
  std::vector<std::int64_t> dimensions{};  ///< numbers of first columns whose losses are added; empty: all columns

  bool reads_scores() const { return loss == Loss::cosine_similarity || loss == Loss::margin_mse; }
};

EmbeddingSettings embedding_settings(const config::Task& task);

/// The similarity that a loss of embeddings trains, of any task that embeds texts.
ops::Similarity trained_similarity(const config::Task& task);

/// groups (rows + 1): texts of each row; scores (texts), or empty. location: a text in words. Throws Error(data) if a
/// row has not the texts that the loss reads, if the rows lack scores that it reads, and if rows with scores have
/// different numbers of texts; Error(input) if "cosine_similarity" reads a score outside of the range.
void require_texts_of_rows(const EmbeddingSettings& settings, std::span<const std::int64_t> groups,
                           std::span<const float> scores, const std::function<std::string(std::int64_t)>& location);

/// Similarity of two embeddings as ops::text_group_loss computes it.
double similarity_of(ops::Similarity similarity, std::span<const float> a, std::span<const float> b);

/// Rows, neighbours in the data, of which each is a negative of the others in the loss of an evaluation.
inline constexpr std::int64_t loss_block = 64;
/// Rows, neighbours in the data, whose texts are the candidates of each other's anchors: the whole data set if it has
/// no more.
inline constexpr std::int64_t ranking_block = 4096;

/// Loss of in-batch negatives, which is one of cosines, and ranks of positives by their similarity, block by block.
class BlockScorer {
 public:
  explicit BlockScorer(const EmbeddingSettings& settings) : settings_(settings) {}

  /// The next text. A row is its anchor, its positive and negatives.
  void add(std::span<const float> embedding, bool is_anchor);
  /// Ends both blocks, which may be empty.
  void finish();

  struct Sums {
    double loss = 0, anchors = 0, reciprocal_ranks = 0;
    double first = 0;  ///< anchors whose positive is nearer than all other candidates of the block
    /// Anchors whose positive is among the ten nearest candidates, 1 / rank and 1 / log2(rank + 1) of these.
    double among_ten = 0, reciprocal_ranks_of_ten = 0, gains_of_ten = 0;
  };
  const Sums& sums() const { return accumulators_; }

 private:
  static double loss_of(std::span<const double> logits);
  double similarity(std::int64_t a, std::int64_t b) const;
  bool is_anchor(std::int64_t text) const;
  void add_losses();
  void rank();

  EmbeddingSettings settings_;
  std::vector<float> embeddings_;
  std::vector<double> lengths_;        // of the embeddings
  std::vector<std::int64_t> anchors_;  // ascending numbers of texts
  std::size_t columns_ = 0;
  std::int64_t loss_anchor_ = 0;  // the first one of the loss's block, among the anchors
  Sums accumulators_;
};

/// Losses and similarities of single rows, in double precision.
class RowScorer {
 public:
  explicit RowScorer(const EmbeddingSettings& settings) : settings_(settings) {}

  /// The next row's texts (texts, columns), the anchor first; its score, which is not read unless `scored`.
  void add(std::span<const float> texts, std::int64_t columns, bool scored, double score);

  struct Sums {
    double loss = 0, rows = 0;         ///< of triplets, or of scores
    double triplets = 0, correct = 0;  ///< pairs of a positive and a negative; those whose positive is nearer
    std::vector<double> compared;      ///< (rows with scores): the number that a score is compared with
  };
  const Sums& sums() const { return accumulators_; }

 private:
  EmbeddingSettings settings_;
  std::vector<double> similarities_;  // of a row's anchor and its other texts
  Sums accumulators_;
};

}  // namespace bert_hpc::objectives
