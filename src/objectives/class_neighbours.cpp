#include "bert_hpc/objectives/class_neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "vector_sums.hpp"

namespace bert_hpc::objectives {

using Kind = ops::BatchTriplets::Kind;

std::span<const float> ClassNeighbours::embedding(std::size_t text) const {
  return std::span(embeddings_).subspan(text * columns_, columns_);
}

/// Infinite if an embedding is not finite, so that distances have an order.
double ClassNeighbours::distance(std::size_t a, std::size_t b) const {
  const double found = loss_.similarity == ops::Similarity::cosine
                           ? 1.0 - product(embedding(a), embedding(b)) * inverse_[a] * inverse_[b]
                           : std::sqrt(squared_distance(embedding(a), embedding(b)));
  return std::isnan(found) ? std::numeric_limits<double>::infinity() : found;
}

void ClassNeighbours::add(std::span<const float> embedding, std::int32_t text_class) {
  constexpr double least_length = 1e-8;
  columns_ = embedding.size();
  embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
  const double length = std::sqrt(product(embedding, embedding));
  if (!std::isfinite(length)) accumulators_.loss = std::numeric_limits<double>::quiet_NaN();
  inverse_.push_back(1.0 / std::max(length, least_length));
  classes_.push_back(text_class);
  if (std::ssize(classes_) - static_cast<std::int64_t>(loss_begin_) == triplet_block) add_loss();
  if (std::ssize(classes_) == neighbour_block) finish();
}

void ClassNeighbours::finish() {
  add_loss();
  rank();
  embeddings_.clear();
  inverse_.clear();
  classes_.clear();
  loss_begin_ = 0;
}

/// The mean that ops::batch_triplet_loss() defines, times the texts of the block.
void ClassNeighbours::add_loss() {
  const std::size_t begin = loss_begin_, end = classes_.size();
  loss_begin_ = end;
  if (begin == end) return;
  double sum = 0, summands = 0;
  const double margin = static_cast<double>(loss_.margin);
  std::vector<double> positives, negatives;
  for (std::size_t anchor = begin; anchor < end; ++anchor) {
    positives.clear();
    negatives.clear();
    for (std::size_t other = begin; other < end; ++other) {
      if (other == anchor) continue;
      (classes_[other] == classes_[anchor] ? positives : negatives).push_back(distance(anchor, other));
    }
    std::sort(negatives.begin(), negatives.end());
    const auto excess = [&](double near, double far) { return near - far + margin; };
    if (loss_.kind == Kind::all) {
      for (const double near : positives) {
        for (const double far : negatives) {
          if (excess(near, far) <= 0) break;  // the others are farther
          sum += excess(near, far);
          summands += 1;
        }
      }
    } else if (loss_.kind == Kind::semi_hard) {
      for (const double near : positives) {
        summands += 1;
        if (negatives.empty()) continue;
        const auto farther = std::upper_bound(negatives.begin(), negatives.end(), near);
        const double far = farther == negatives.end() ? negatives.back() : *farther;
        sum += std::max(excess(near, far), 0.0);
      }
    } else {
      summands += 1;
      if (negatives.empty()) continue;
      const double hardest = positives.empty() ? 0.0 : *std::max_element(positives.begin(), positives.end());
      const double difference = hardest - negatives.front();
      sum += loss_.kind == Kind::hard ? std::max(difference + margin, 0.0)
                                      : std::max(difference, 0.0) + std::log1p(std::exp(-std::abs(difference)));
    }
  }
  const auto texts = static_cast<double>(end - begin);
  accumulators_.loss += summands > 0 ? texts * sum / summands : 0.0;
  accumulators_.loss_texts += texts;
}

/// Equally near texts of other classes come first, so that equal embeddings of all texts are no success.
void ClassNeighbours::rank() {
  struct Neighbour {
    double distance;
    bool is_of_class;
  };
  std::unordered_map<std::int32_t, std::size_t> counts;
  for (const std::int32_t each : classes_) ++counts[each];
  std::vector<Neighbour> neighbours;
  for (std::size_t text = 0; text < classes_.size(); ++text) {
    const std::size_t relevant = counts[classes_[text]] - 1;
    if (relevant == 0) continue;
    neighbours.clear();
    for (std::size_t other = 0; other < classes_.size(); ++other) {
      if (other == text) continue;
      const bool is_of_class = classes_[other] == classes_[text];
      neighbours.push_back({distance(text, other), is_of_class});
    }
    const auto end = neighbours.begin() + static_cast<std::ptrdiff_t>(relevant);
    std::partial_sort(neighbours.begin(), end, neighbours.end(), [](const Neighbour& a, const Neighbour& b) {
      return a.distance != b.distance ? a.distance < b.distance : a.is_of_class < b.is_of_class;
    });
    double found = 0, precisions = 0;
    for (std::size_t k = 0; k < relevant; ++k) {
      if (!neighbours[k].is_of_class) continue;
      found += 1;
      precisions += found / static_cast<double>(k + 1);
    }
    const auto all = static_cast<double>(relevant);
    accumulators_.texts += 1;
    accumulators_.nearest += neighbours.front().is_of_class ? 1 : 0;
    accumulators_.r_precision += found / all;
    accumulators_.average_precision += precisions / all;
  }
}

}  // namespace bert_hpc::objectives
