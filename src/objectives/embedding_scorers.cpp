// Losses, ranks and comparisons of an evaluation of embeddings.
#include <algorithm>
#include <cmath>

#include "bert_hpc/objectives/embedding.hpp"
#include "vector_sums.hpp"

namespace bert_hpc::objectives {

using Loss = EmbeddingSettings::Loss;

namespace {

constexpr double least_length = 1e-12;

}  // namespace

double similarity_of(ops::Similarity similarity, std::span<const float> a, std::span<const float> b) {
  if (similarity == ops::Similarity::euclidean) return -std::sqrt(squared_distance(a, b));
  if (similarity == ops::Similarity::dot) return product(a, b);
  const auto length = [](std::span<const float> each) {
    return std::max(std::sqrt(product(each, each)), least_length);
  };
  return product(a, b) / length(a) / length(b);
}

void BlockScorer::add(std::span<const float> embedding, bool is_anchor) {
  if (is_anchor && std::ssize(anchors_) - loss_anchor_ == loss_block) add_losses();
  if (is_anchor && std::ssize(anchors_) == ranking_block) finish();
  if (is_anchor) anchors_.push_back(std::ssize(lengths_));
  columns_ = embedding.size();
  embeddings_.insert(embeddings_.end(), embedding.begin(), embedding.end());
  lengths_.push_back(std::max(std::sqrt(product(embedding, embedding)), least_length));
}

void BlockScorer::finish() {
  add_losses();
  rank();
  embeddings_.clear();
  lengths_.clear();
  anchors_.clear();
  loss_anchor_ = 0;
}

double BlockScorer::similarity(std::int64_t a, std::int64_t b) const {
  const auto row = [&](std::int64_t r) {
    return std::span<const float>(embeddings_).subspan(static_cast<std::size_t>(r) * columns_, columns_);
  };
  if (settings_.similarity != ops::Similarity::cosine) return similarity_of(settings_.similarity, row(a), row(b));
  return product(row(a), row(b)) / lengths_[static_cast<std::size_t>(a)] / lengths_[static_cast<std::size_t>(b)];
}

bool BlockScorer::is_anchor(std::int64_t text) const {
  return std::binary_search(anchors_.begin(), anchors_.end(), text);
}

/// Cross entropy of logits, the first of which is the pair's.
double BlockScorer::loss_of(std::span<const double> logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum) - logits.front();
}

void BlockScorer::add_losses() {
  const std::int64_t first = loss_anchor_, last = std::ssize(anchors_);
  loss_anchor_ = last;
  if (first == last) return;
  const std::int64_t begin = anchors_[static_cast<std::size_t>(first)], end = std::ssize(lengths_);
  std::vector<double> logits;
  for (std::int64_t number = first; number < last; ++number) {
    const std::int64_t anchor = anchors_[static_cast<std::size_t>(number)], positive = anchor + 1;
    const double of_pair = settings_.scale * similarity(anchor, positive);
    logits.assign(1, of_pair);
    for (std::int64_t other = begin; other < end; ++other) {
      if (!is_anchor(other) && other != positive) logits.push_back(settings_.scale * similarity(anchor, other));
    }
    double loss = loss_of(logits);
    if (settings_.symmetric) {
      logits.assign(1, of_pair);
      for (std::int64_t other = begin; other < end; ++other) {
        if (is_anchor(other) && other != anchor) logits.push_back(settings_.scale * similarity(other, positive));
      }
      loss = (loss + loss_of(logits)) / 2;
    }
    accumulators_.loss += loss;
  }
}

/// Equally similar candidates are before the positive, so that equal embeddings of all texts are no success.
void BlockScorer::rank() {
  constexpr std::int64_t depth = 10;
  std::vector<std::int64_t> candidates;
  for (std::int64_t text = 0; text < std::ssize(lengths_); ++text) {
    if (!is_anchor(text)) candidates.push_back(text);
  }
  for (const std::int64_t anchor : anchors_) {
    const double of_pair = similarity(anchor, anchor + 1);
    const std::int64_t before = std::count_if(candidates.begin(), candidates.end(), [&](std::int64_t candidate) {
      return candidate != anchor + 1 && !(similarity(anchor, candidate) < of_pair);
    });
    const auto rank = static_cast<double>(before + 1);
    accumulators_.anchors += 1;
    accumulators_.first += before == 0 ? 1 : 0;
    accumulators_.reciprocal_ranks += 1.0 / rank;
    if (before >= depth) continue;
    accumulators_.among_ten += 1;
    accumulators_.reciprocal_ranks_of_ten += 1.0 / rank;
    accumulators_.gains_of_ten += 1.0 / std::log2(rank + 1);
  }
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
