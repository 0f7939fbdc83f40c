// Embeddings of texts (Reimers and Gurevych, "Sentence-BERT", 2019): the pooled rows of the encoder, without parameters
// of their own. Their loss compares similarities: of a step's anchors and candidates over all replicas
// (ops/multiple_negatives_loss.hpp), or of the texts of a row (ops/text_group_loss.hpp).
#include "bert_hpc/objectives/embedding.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/pooling_variants.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/multiple_negatives_loss.hpp"
#include "bert_hpc/ops/text_group_loss.hpp"

namespace bert_hpc::objectives {

using Loss = EmbeddingSettings::Loss;

namespace {

constexpr std::array losses = {std::pair(tasks::multiple_negatives_loss, Loss::multiple_negatives),
                               std::pair(tasks::cosine_similarity_loss, Loss::cosine_similarity),
                               std::pair(tasks::triplet_loss, Loss::triplet),
                               std::pair(tasks::margin_mse_loss, Loss::margin_mse)};

const char* word_of(Loss loss) {
  return std::find_if(losses.begin(), losses.end(), [loss](const auto& named) { return named.second == loss; })->first;
}

}  // namespace

ops::Similarity trained_similarity(const config::Task& task) {
  if (task.is(tasks::similarity_key, "dot")) return ops::Similarity::dot;
  if (task.is(tasks::similarity_key, "euclidean")) return ops::Similarity::euclidean;
  const bool is_dot = task.is(tasks::loss_key, tasks::margin_mse_loss) && !task.is(tasks::similarity_key, "cosine");
  return is_dot ? ops::Similarity::dot : ops::Similarity::cosine;
}

EmbeddingSettings embedding_settings(const config::Task& task) {
  const std::vector<double> range = task.list(tasks::range_key).numbers;
  const std::vector<double> dimensions = task.list(tasks::dimensions_key).numbers;
  Loss loss = Loss::multiple_negatives;
  for (const auto& [word, named] : losses) loss = task.is(tasks::loss_key, word) ? named : loss;
  return {.loss = loss,
          .scale = task.number(tasks::scale_key),
          .symmetric = task.is_on(tasks::symmetric_key),
          .skips_duplicates = task.is_on(tasks::skip_duplicates_key),
          .low = range.empty() ? 0.0 : range.front(),
          .high = range.empty() ? 1.0 : range.back(),
          .similarity = trained_similarity(task),
          .margin = task.number(tasks::margin_key),
          .dimensions = {dimensions.begin(), dimensions.end()}};
}

namespace {

/// Texts that a loss reads of a row.
struct Texts {
  std::int64_t least, most;  ///< of the row
  const char* words;
};

/// `first`: texts of the first row, whose number all rows with scores share.
Texts texts_of(Loss loss, bool scored, std::int64_t first) {
  constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();
  if (loss == Loss::cosine_similarity) return {2, 2, "two texts and their score"};
  if (loss == Loss::margin_mse) return {3, 3, "an anchor, a positive, one negative and their score"};
  if (loss == Loss::triplet && !scored) return {3, any, "an anchor, a positive and one or more negatives"};
  if (!scored) return {2, any, "an anchor, a positive and any number of negatives"};
  if (loss == Loss::triplet || first == 3) return {3, 3, "a score, an anchor, a positive and one negative"};
  return {2, 2, "two texts and their score"};
}

}  // namespace

void require_texts_of_rows(const EmbeddingSettings& settings, std::span<const std::int64_t> groups,
                           std::span<const float> scores, const std::function<std::string(std::int64_t)>& location) {
  using core::Error;
  using core::ExitCode;
  const std::string loss = word_of(settings.loss);
  if (settings.reads_scores() && scores.empty()) {
    throw Error(ExitCode::data, location(0) + ": its rows have no scores, which [task] loss = \"" + loss +
                                    "\" needs: name their column in [source] label of bert_hpc_prep's input, or "
                                    "choose \"multiple_negatives\".");
  }
  const std::int64_t rows = std::ssize(groups) - 1;
  const Texts wanted = texts_of(settings.loss, !scores.empty(), rows > 0 ? groups[1] - groups[0] : 2);
  std::int64_t first_bad = -1, bad = 0;
  for (std::size_t g = 0; g + 1 < groups.size(); ++g) {
    const std::int64_t texts = groups[g + 1] - groups[g];
    if (texts >= wanted.least && texts <= wanted.most) continue;
    if (bad++ == 0) first_bad = static_cast<std::int64_t>(g);
  }
  if (bad > 0) {
    const std::int64_t begin = groups[static_cast<std::size_t>(first_bad)];
    const std::int64_t texts = groups[static_cast<std::size_t>(first_bad) + 1] - begin;
    const bool lacks_negatives = texts == 2 && wanted.least == 3;
    throw Error(ExitCode::data,
                location(begin) + " begins a row of " + core::counted(texts, "text") + "; with [task] loss = \"" +
                    loss + "\" a row has " + wanted.words + " (" + core::with_commas(bad) + " of " +
                    core::counted(rows, "row") + (bad == 1 ? " does" : " do") + " not)." +
                    (lacks_negatives ? " Name the columns of negatives in [source] negatives of bert_hpc_prep's input, "
                                       "or choose another loss."
                                     : ""));
  }
  if (settings.loss != Loss::cosine_similarity) return;
  for (std::size_t s = 0; s < scores.size(); ++s) {
    const double score = scores[s];
    if (score >= settings.low && score <= settings.high) continue;
    const auto [least, largest] = std::minmax_element(scores.begin(), scores.end());
    throw Error(ExitCode::input,
                location(static_cast<std::int64_t>(s)) + " has the score " + core::format_number(score) +
                    ", outside of " + core::format_number(settings.low) + " to " + core::format_number(settings.high) +
                    ": set [task] range to that of the scores (" + core::format_number(*least) + " to " +
                    core::format_number(*largest) + " are there), which are compared as numbers from 0 to 1.");
  }
}

namespace {

/// The loss of the texts of each row.
void group_loss(const layers::LossInput& in) {
  const auto& groups = in.targets<core::ListTargets>();
  ops::text_group_loss(in.logits(), groups.data, groups.count, in.targets<core::TextTargets>().data, in.settings.texts,
                       in.scale, in.scratch, in.row_losses, in.d_logits());
}

train::LossOptions group_loss_options(const RunFacts& run) {
  using Kind = ops::TextGroupLoss::Kind;
  const EmbeddingSettings settings = embedding_settings(run.task);
  return {.texts = {.kind = settings.loss == Loss::triplet      ? Kind::triplet
                            : settings.loss == Loss::margin_mse ? Kind::margin
                                                                : Kind::score,
                    .similarity = settings.similarity,
                    .margin = static_cast<float>(settings.margin),
                    .dimensions = settings.dimensions}};
}

layers::StepLossKind multiple_negatives(const config::Task& task) {
  const EmbeddingSettings settings = embedding_settings(task);
  const ops::MultipleNegatives options{.scale = static_cast<float>(settings.scale),
                                       .symmetric = settings.symmetric,
                                       .skips_duplicates = settings.skips_duplicates};
  // The losses of several numbers of columns are added (Kusupati et al., "Matryoshka representation learning", 2022).
  return {
      .compute =
          [options, dimensions = settings.dimensions](const layers::StepOutputs& all, std::int64_t begin, float scale,
                                                      float* row_losses, core::Tensor<float> d_logits) {
            ops::set_zero({row_losses, static_cast<std::size_t>(d_logits.rows)});
            ops::set_zero({d_logits.data, static_cast<std::size_t>(d_logits.size())});
            const auto add = [&](std::int64_t columns) {
              ops::multiple_negatives_loss({all.logits.data, all.logits.rows, columns, all.logits.stride},
                                           all.targets<float>(), options, begin, scale, all.scratch, row_losses,
                                           {d_logits.data, d_logits.rows, columns, d_logits.stride});
            };
            for (const std::int64_t columns : dimensions) add(columns);
            if (dimensions.empty()) add(d_logits.columns);
          },
      .targets = [](const core::Targets& targets) -> const void* { return targets.get<core::TextTargets>().data; },
      .columns = core::TextTargets::columns,
      .scratch = [](std::int64_t rows) { return ops::MultipleNegatives::scratch * rows; },
      .looks_ahead = true};
}

/// Gets the embeddings of all texts, in the order of the data.
class EmbeddingCollector : public ResultCollector {
 public:
  EmbeddingCollector(const data::ShardReader& reader, const EmbeddingSettings& settings)
      : reader_(reader),
        ranks_(reader.values().empty()),
        is_block_loss_(ranks_ && settings.loss != Loss::triplet),
        rows_(settings),
        block_(settings) {}

  void add(std::span<const float> kept) override {
    const std::size_t group = static_cast<std::size_t>(group_);
    const bool is_anchor = sample_ == reader_.groups()[group];
    if (ranks_) block_.add(kept, is_anchor);
    texts_.insert(texts_.end(), kept.begin(), kept.end());
    if (++sample_ < reader_.groups()[group + 1]) return;
    const double score = ranks_ ? 0.0 : reader_.values()[static_cast<std::size_t>(sample_) - 1];
    rows_.add(texts_, std::ssize(kept), !ranks_, score);
    texts_.clear();
    ++group_;
  }

  void finish(metrics::Evaluation* evaluation) override {
    if (evaluation == nullptr) return;
    block_.finish();
    const RowScorer::Sums& of_rows = rows_.sums();
    const BlockScorer::Sums& of_blocks = block_.sums();
    const metrics::Sums compared = evaluation->sums_of(metrics::text_similarity());
    core::require(compared.size() == of_rows.compared.size(), "each row with a score is compared");
    std::copy(of_rows.compared.begin(), of_rows.compared.end(), compared.begin());
    const metrics::Sums ranks = evaluation->sums_of(metrics::batch_ranks());
    const std::array numbers = {of_blocks.anchors,          of_blocks.first,
                                of_blocks.reciprocal_ranks, of_blocks.reciprocal_ranks_of_ten,
                                of_blocks.gains_of_ten,     of_blocks.among_ten};
    core::require(ranks.size() == numbers.size(), "ranks of positives have other sums than their metrics");
    std::copy(numbers.begin(), numbers.end(), ranks.begin());
    const metrics::Sums triplets = evaluation->sums_of(metrics::text_triplets());
    triplets[0] = of_rows.triplets;
    triplets[1] = of_rows.correct;
    if (is_block_loss_) return evaluation->set_loss({.sum = of_blocks.loss, .targets = of_blocks.anchors});
    evaluation->set_loss({.sum = of_rows.loss, .targets = of_rows.rows});
  }

 private:
  const data::ShardReader& reader_;
  bool ranks_, is_block_loss_;
  std::int64_t sample_ = 0, group_ = 0;
  std::vector<float> texts_;  // embeddings of the row under way
  RowScorer rows_;
  BlockScorer block_;
};

std::string dimensions_text(const EmbeddingSettings& settings) {
  std::string text;
  for (const std::int64_t columns : settings.dimensions) {
    text += (text.empty() ? "; of the first " : " + ") + std::to_string(columns);
  }
  return text.empty() ? text : text + " columns";
}

const char* similarity_text(ops::Similarity similarity) {
  if (similarity == ops::Similarity::dot) return "dot product";
  return similarity == ops::Similarity::cosine ? "cosine" : "negative Euclidean distance";
}

std::string loss_text(const config::Task& task) {
  const EmbeddingSettings settings = embedding_settings(task);
  const std::string dimensions = dimensions_text(settings), similarity = similarity_text(settings.similarity);
  switch (settings.loss) {
    case Loss::cosine_similarity:
      return "squared error of the cosine of a pair's embeddings and its score from " +
             core::format_number(settings.low) + " to " + core::format_number(settings.high) +
             ", as a number from 0 to 1" + dimensions;
    case Loss::triplet:
      return "triplets: the positive is to be nearer than each negative by a margin of " +
             core::format_number(settings.margin) + "; similarity: " + similarity + dimensions;
    case Loss::margin_mse:
      return "squared error of the similarity to the positive less that to the negative, and the score; similarity: " +
             similarity + dimensions;
    case Loss::multiple_negatives:
      break;
  }
  return "in-batch negatives: of " + std::string(settings.symmetric ? "each text of a pair" : "each anchor") +
         " all other rows of the step" + (settings.skips_duplicates ? " but duplicates" : "") + "; cosines times " +
         core::format_number(settings.scale) + dimensions;
}

Objective with_mean() {
  return {.task = tasks::find("embedding"),
          .head = layers::token_embedding_head(ops::Pooling::mean, group_loss, ops::TextGroupLoss::scratch),
          .step_losses = {{tasks::multiple_negatives_loss, multiple_negatives}},
          .results =
              [](const ResultsRequest& data) {
                return collected_outputs(data.outputs,
                                         [&reader = data.reader, settings = embedding_settings(data.task)] {
                                           return std::make_unique<EmbeddingCollector>(reader, settings);
                                         });
              },
          .check_labels =
              [](const config::Task& task, const data::ShardReader& reader) {
                if (reader.planned()) return;
                require_texts_of_rows(embedding_settings(task), reader.groups(), reader.values(),
                                      [&reader](std::int64_t sample) {
                                        const data::SampleLocation at = reader.location(sample);
                                        return at.file + ": sequence " + std::to_string(at.sequence);
                                      });
              },
          .loss_options = group_loss_options,
          .set_batches =
              [](const config::Task& task, data::BatchLoaderOptions& options) {
                const EmbeddingSettings settings = embedding_settings(task);
                options.lists = true;
                if (settings.loss != Loss::cosine_similarity) return;  // other losses read scores as they are
                options.label_scales = {data::LabelScale::of_range(settings.low, settings.high)};
              },
          .training_lines = [](const TrainingFacts& training) -> Lines {
            return {{"loss", loss_text(training.task)}, {"pooling", training.task.word(tasks::pooling_key)}};
          }};
}

const Objective& with_settings(const config::Task& task) {
  static const PoolingVariants variants(with_mean());
  return variants.of(task);
}

}  // namespace

Objective embedding() {
  Objective objective = with_mean();
  objective.with = with_settings;
  return objective;
}

}  // namespace bert_hpc::objectives
