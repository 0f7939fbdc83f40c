// Losses, ranks and comparisons of an evaluation of embeddings.
#include <algorithm>
#include <cmath>

#include "bert_hpc/objectives/embedding.hpp"

namespace bert_hpc::objectives {

using Loss = EmbeddingSettings::Loss;

namespace {

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * b[i];
  return sum;
}

double length(std::span<const float> a) {
  constexpr double least = 1e-12;
  return std::max(std::sqrt(product(a, a)), least);
}

}  // namespace

double similarity_of(ops::Similarity similarity, std::span<const float> a, std::span<const float> b) {
  if (similarity == ops::Similarity::dot) return product(a, b);
  if (similarity == ops::Similarity::cosine) return product(a, b) / length(a) / length(b);
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return -std::sqrt(squares);
}

void BlockScorer::add(std::span<const float> embedding, bool is_anchor) {
  if (is_anchor) anchors_.push_back(lengths_.size());
  embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
  lengths_.push_back(length(embedding));
}

/// Cross entropy of logits, the first of which is the pair's.
double BlockScorer::loss_of(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits.front();
}

void BlockScorer::finish() {
  const std::size_t count = lengths_.size(), columns = count > 0 ? embeddings_.size() / count : 0;
  const auto row = [&](std::size_t r) { return std::span<const float>(embeddings_).subspan(r * columns, columns); };
  const auto similarity = [&](std::size_t a, std::size_t b) {
    if (settings_.similarity != ops::Similarity::cosine) return similarity_of(settings_.similarity, row(a), row(b));
    return product(row(a), row(b)) / lengths_[a] / lengths_[b];
  };
  const auto is_anchor = [&](std::size_t r) { return std::binary_search(anchors_.begin(), anchors_.end(), r); };
  std::vector<double> logits;
  for (const std::size_t anchor : anchors_) {
    const std::size_t positive = anchor + 1;
    const double of_pair = similarity(anchor, positive);
    logits.assign(1, settings_.scale * of_pair);
    std::size_t rank = 1;
    for (std::size_t other = 0; other < count; ++other) {
      if (is_anchor(other) || other == positive) continue;
      const double of_other = similarity(anchor, other);
      logits.push_back(settings_.scale * of_other);
      if (!(of_other < of_pair)) ++rank;
    }
    double loss = loss_of(logits);
    if (settings_.symmetric) {
      logits.assign(1, settings_.scale * of_pair);
      for (const std::size_t other : anchors_) {
        if (other != anchor) logits.push_back(settings_.scale * similarity(other, positive));
      }
      loss = (loss + loss_of(logits)) / 2;
    }
    accumulators_.loss += loss;
    accumulators_.anchors += 1;
    accumulators_.first += rank == 1 ? 1 : 0;
    accumulators_.reciprocal_ranks += 1.0 / static_cast<double>(rank);
  }
  embeddings_.clear();
  lengths_.clear();
  anchors_.clear();
}

void RowScorer::add(std::span<const float> texts, std::int64_t columns, bool scored, double score) {
  const auto text = [&](std::size_t t) {
    return texts.subspan(t * static_cast<std::size_t>(columns), static_cast<std::size_t>(columns));
  };
  const std::size_t others = texts.size() / static_cast<std::size_t>(columns) - 1;
  if (others == 1 && !scored) return;
  similarities_.clear();
  for (std::size_t t = 1; t <= others; ++t)
    similarities_.push_back(similarity_of(settings_.similarity, text(0), text(t)));
  const double near = similarities_.front();
  double triplets = 0;  // their loss
  for (std::size_t t = 1; t < others; ++t) {
    const double far = similarities_[t];
    accumulators_.triplets += 1;
    accumulators_.correct += near > far ? 1 : 0;
    const double excess = far - near + settings_.margin;
    triplets += excess <= 0 ? 0.0 : excess;
  }
  double error = 0;
  if (scored) {
    const bool is_pair = others == 1;
    accumulators_.compared.push_back(is_pair ? near : near - similarities_[1]);
    error =
        accumulators_.compared.back() - (is_pair ? (score - settings_.low) / (settings_.high - settings_.low) : score);
  }
  const bool has_triplets = settings_.loss == Loss::triplet;
  if (!has_triplets && !scored) return;
  accumulators_.loss += has_triplets ? triplets / static_cast<double>(others - 1) : error * error;
  accumulators_.rows += 1;
}

}  // namespace bert_hpc::objectives
