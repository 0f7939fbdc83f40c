// Embeddings of texts (Reimers and Gurevych, "Sentence-BERT", 2019): the pooled rows of the encoder, without parameters
// of their own. Their loss compares cosines: of a step's anchors and candidates over all replicas
// (ops/multiple_negatives_loss.hpp), or of each pair with its score (ops/cosine_similarity_loss.hpp).
#include "bert_hpc/objectives/embedding.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/ops/cosine_similarity_loss.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/multiple_negatives_loss.hpp"

namespace bert_hpc::objectives {

EmbeddingSettings embedding_settings(const config::Task& task) {
  const std::vector<double> range = task.list(tasks::range_key).numbers;
  const std::vector<double> dimensions = task.list(tasks::dimensions_key).numbers;
  return {.scale = task.number(tasks::scale_key),
          .symmetric = task.is_on(tasks::symmetric_key),
          .low = range.empty() ? 0.0 : range.front(),
          .high = range.empty() ? 1.0 : range.back(),
          .reads_scores = task.is(tasks::loss_key, tasks::cosine_similarity_loss),
          .dimensions = {dimensions.begin(), dimensions.end()}};
}

void require_texts_of_rows(const EmbeddingSettings& settings, std::span<const std::int64_t> groups,
                           std::span<const float> scores, const std::function<std::string(std::int64_t)>& place) {
  using core::Error;
  using core::ExitCode;
  if (settings.reads_scores && scores.empty()) {
    throw Error(ExitCode::data,
                place(0) +
                    ": its rows have no scores, which [task] loss = \"cosine_similarity\" needs: name their column in "
                    "[source] label of bert_hpc_prep's input, or choose \"multiple_negatives\".");
  }
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    const std::int64_t texts = groups[g + 1] - groups[g];
    if (texts < 2 || (!scores.empty() && texts != 2)) {
      throw Error(
          ExitCode::data,
          place(groups[g]) + " begins a row of " + core::counted(texts, "text") + "; a row has " +
              (scores.empty() ? "an anchor, a positive and any number of negatives." : "two texts and their score."));
    }
  }
  if (!settings.reads_scores) return;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    const double score = scores[s];
    if (score >= settings.low && score <= settings.high) continue;
    const auto [least, largest] = std::minmax_element(scores.begin(), scores.end());
    throw Error(ExitCode::input, place(static_cast<std::int64_t>(s)) + " has the score " + core::format_number(score) +
                                     ", outside of " + core::format_number(settings.low) + " to " +
                                     core::format_number(settings.high) + ": set [task] range to that of the scores (" +
                                     core::format_number(*least) + " to " + core::format_number(*largest) +
                                     " are there), which are compared as numbers from 0 to 1.");
  }
}

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

double cosine_of(std::span<const float> a, std::span<const float> b) {
  return product(a, b) / length(a) / length(b);
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
  const auto cosine = [&](std::size_t a, std::size_t b) { return product(row(a), row(b)) / lengths_[a] / lengths_[b]; };
  const auto is_anchor = [&](std::size_t r) { return std::binary_search(anchors_.begin(), anchors_.end(), r); };
  std::vector<double> logits;
  for (const std::size_t anchor : anchors_) {
    const std::size_t positive = anchor + 1;
    const double of_pair = cosine(anchor, positive);
    logits.assign(1, scale_ * of_pair);
    std::size_t rank = 1;
    for (std::size_t other = 0; other < count; ++other) {
      if (is_anchor(other) || other == positive) continue;
      const double of_other = cosine(anchor, other);
      logits.push_back(scale_ * of_other);
      if (!(of_other < of_pair)) ++rank;
    }
    double loss = loss_of(logits);
    if (symmetric_) {
      logits.assign(1, scale_ * of_pair);
      for (const std::size_t other : anchors_) {
        if (other != anchor) logits.push_back(scale_ * cosine(other, positive));
      }
      loss = (loss + loss_of(logits)) / 2;
    }
    sums_.loss += loss;
    sums_.anchors += 1;
    sums_.first += rank == 1 ? 1 : 0;
    sums_.reciprocal_ranks += 1.0 / static_cast<double>(rank);
  }
  embeddings_.clear();
  lengths_.clear();
  anchors_.clear();
}

namespace {

using ops::Pooling;

/// The loss of pairs with a score.
void cosine_loss(const layers::LossInput& in) {
  const auto& pairs = in.targets<core::ListTargets>();
  ops::cosine_similarity_loss(in.logits(), pairs.data, pairs.count, in.targets<core::TextTargets>().data, in.scale,
                              in.row_losses, in.d_logits());
}

layers::StepLossKind multiple_negatives(const config::Task& task) {
  const EmbeddingSettings settings = embedding_settings(task);
  const ops::MultipleNegatives options{.scale = static_cast<float>(settings.scale), .symmetric = settings.symmetric};
  // The losses of several numbers of columns are added (Kusupati et al., "Matryoshka representation learning", 2022).
  return {
      .compute =
          [options, dimensions = settings.dimensions](const layers::StepOutputs& all, std::int64_t begin, float scale,
                                                      float* row_losses, core::Tensor<float> d_logits) {
            ops::set_zero({row_losses, static_cast<std::size_t>(d_logits.rows)});
            ops::set_zero({d_logits.data, static_cast<std::size_t>(d_logits.size())});
            const auto add = [&](std::int64_t columns) {
              ops::multiple_negatives_loss({all.logits.data, all.logits.rows, columns, all.logits.stride}, all.values,
                                           options, begin, scale, all.scratch, row_losses,
                                           {d_logits.data, d_logits.rows, columns, d_logits.stride});
            };
            for (const std::int64_t columns : dimensions) add(columns);
            if (dimensions.empty()) add(d_logits.columns);
          },
      .targets = [](const core::Targets& targets) { return targets.get<core::TextTargets>().data; },
      .columns = core::TextTargets::columns,
      .scratch = ops::MultipleNegatives::scratch,
      .looks_ahead = true};
}

/// Gets the embeddings of all texts, in the order of the data.
class EmbeddingCollector : public ResultCollector {
 public:
  EmbeddingCollector(const data::ShardReader& reader, const EmbeddingSettings& settings)
      : reader_(reader), settings_(settings), block_(settings.scale, settings.symmetric) {}

  void add(std::span<const float> kept) override {
    const bool is_anchor = sample_ == reader_.groups()[static_cast<std::size_t>(group_)];
    reader_.values().empty() ? add_to_block(kept, is_anchor) : add_to_pair(kept, is_anchor);
    if (++sample_ == reader_.groups()[static_cast<std::size_t>(group_) + 1]) ++group_;
  }

  void finish(metrics::Evaluation* evaluation) override {
    if (evaluation == nullptr) return;
    if (!reader_.values().empty()) {
      const metrics::Sums sums = evaluation->sums_of(metrics::text_similarity());
      core::require(sums.size() == cosines_.size(), "each pair has a cosine");
      std::copy(cosines_.begin(), cosines_.end(), sums.begin());
      return evaluation->set_loss({.sum = errors_, .targets = static_cast<double>(cosines_.size())});
    }
    block_.finish();
    const BlockScorer::Sums& found = block_.sums();
    const metrics::Sums sums = evaluation->sums_of(metrics::batch_ranks());
    sums[0] = found.anchors;
    sums[1] = found.first;
    sums[2] = found.reciprocal_ranks;
    evaluation->set_loss({.sum = found.loss, .targets = found.anchors});
  }

 private:
  void add_to_block(std::span<const float> kept, bool is_anchor) {
    if (is_anchor && group_ % embedding_block == 0) block_.finish();
    block_.add(kept, is_anchor);
  }

  void add_to_pair(std::span<const float> kept, bool is_anchor) {
    if (is_anchor) {
      first_.assign(kept.begin(), kept.end());
      return;
    }
    cosines_.push_back(cosine_of(first_, kept));
    const double score = reader_.values()[static_cast<std::size_t>(sample_)];
    const double error = cosines_.back() - (score - settings_.low) / (settings_.high - settings_.low);
    errors_ += error * error;
  }

  const data::ShardReader& reader_;
  EmbeddingSettings settings_;
  std::int64_t sample_ = 0, group_ = 0;
  BlockScorer block_;
  std::vector<float> first_;  // text of the pair under way
  std::vector<double> cosines_;
  double errors_ = 0;
};

class EmbeddingResults : public SampleResults {
 public:
  explicit EmbeddingResults(const ResultsRequest& data)
      : reader_(data.reader), settings_(embedding_settings(data.task)), columns_(data.outputs) {}

  std::int64_t width(std::int64_t) const override { return columns_; }
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    std::copy(outputs.begin(), outputs.end(), kept.begin());
  }
  std::unique_ptr<ResultCollector> collect(const PredictionsFacts*) const override {
    return std::make_unique<EmbeddingCollector>(reader_, settings_);
  }
  bool makes_loss() const override { return true; }
  bool makes_metrics() const override { return true; }

 private:
  const data::ShardReader& reader_;
  EmbeddingSettings settings_;
  std::int64_t columns_;
};

std::string loss_text(const config::Task& task) {
  const EmbeddingSettings settings = embedding_settings(task);
  if (settings.reads_scores) {
    return "squared error of the cosine of a pair's embeddings and its score from " +
           core::format_number(settings.low) + " to " + core::format_number(settings.high) +
           ", as a number from 0 to 1";
  }
  std::string dimensions;
  for (const std::int64_t columns : settings.dimensions) {
    dimensions += (dimensions.empty() ? "; of the first " : " + ") + std::to_string(columns);
  }
  if (!dimensions.empty()) dimensions += " columns";
  return "in-batch negatives: of " + std::string(settings.symmetric ? "each text of a pair" : "each anchor") +
         " all other rows of the step; cosines times " + core::format_number(settings.scale) + dimensions;
}

Objective with_pooling(Pooling pooling) {
  return {.task = tasks::find("embedding"),
          .head = layers::token_embedding_head(pooling, cosine_loss),
          .step_losses = {{tasks::multiple_negatives_loss, multiple_negatives}},
          .results = [](const ResultsRequest& data) -> std::unique_ptr<SampleResults> {
            return std::make_unique<EmbeddingResults>(data);
          },
          .check_labels =
              [](const config::Task& task, const data::ShardReader& reader) {
                require_texts_of_rows(embedding_settings(task), reader.groups(), reader.values(),
                                      [&reader](std::int64_t sample) {
                                        const data::SamplePlace place = reader.place(sample);
                                        return place.file + ": sequence " + std::to_string(place.sequence);
                                      });
              },
          .set_batches =
              [](const config::Task& task, data::BatchLoaderOptions& options) {
                const EmbeddingSettings settings = embedding_settings(task);
                options.lists = true;
                options.label_scales = {data::LabelScale::of_range(settings.low, settings.high)};
              },
          .training_lines = [](const TrainingFacts& training) -> Lines {
            return {{"loss", loss_text(training.task)}, {"pooling", training.task.word(tasks::pooling_key)}};
          }};
}

const Objective& with_settings(const config::Task& task) {
  static const Objective mean = with_pooling(Pooling::mean), cls = with_pooling(Pooling::first),
                         max = with_pooling(Pooling::max), last = with_pooling(Pooling::last);
  if (task.is(tasks::pooling_key, "cls")) return cls;
  if (task.is(tasks::pooling_key, "max")) return max;
  return task.is(tasks::pooling_key, "last") ? last : mean;
}

}  // namespace

Objective embedding() {
  Objective objective = with_pooling(Pooling::mean);
  objective.with = with_settings;
  return objective;
}

}  // namespace bert_hpc::objectives
