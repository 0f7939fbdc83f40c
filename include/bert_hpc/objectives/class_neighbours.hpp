// Numbers of an evaluation of embeddings of texts with classes. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bert_hpc/ops/batch_triplet_loss.hpp"

namespace bert_hpc::objectives {

/// Texts, neighbours in the data, among which each one's nearest are sought: the whole data set if it has no more.
inline constexpr std::int64_t neighbour_block = 4096;
/// Texts of a batch of the loss.
inline constexpr std::int64_t triplet_block = 64;

/// Adds up the triplet loss and the classes of nearest texts, block by block.
class ClassNeighbours {
 public:
  explicit ClassNeighbours(const ops::BatchTriplets& loss) : loss_(loss) {}

  void add(std::span<const float> embedding, std::int32_t text_class);
  /// Ends both blocks, which may be empty.
  void finish();

  struct Sums {
    /// Number of texts whose class has another text in the block, and sums over them.
    double texts = 0, nearest = 0, r_precision = 0, average_precision = 0;
    double loss = 0, loss_texts = 0;  ///< over all texts
  };
  const Sums& sums() const { return accumulators_; }

 private:
  std::span<const float> embedding(std::size_t text) const;
  double distance(std::size_t a, std::size_t b) const;
  void add_loss();
  void rank();

  ops::BatchTriplets loss_;
  std::vector<float> embeddings_;
  std::vector<double> inverse_;  // 1 / length of each; 1 for Euclidean distances
  std::vector<std::int32_t> classes_;
  std::size_t columns_ = 0, loss_begin_ = 0;  // of the loss's block
  Sums accumulators_;
};

}  // namespace bert_hpc::objectives
