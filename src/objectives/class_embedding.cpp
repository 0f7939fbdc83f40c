// Embeddings of texts with classes: the pooled rows of the encoder, without parameters of their own. The loss compares
// distances between the texts of a whole step over all replicas (ops/batch_triplet_loss.hpp).
#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/class_neighbours.hpp"
#include "bert_hpc/objectives/pooling_variants.hpp"
#include "bert_hpc/ops/batch_triplet_loss.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::objectives {
namespace {

using Kind = ops::BatchTriplets::Kind;

constexpr std::array kinds = {
    std::pair(tasks::batch_hard_loss, Kind::hard), std::pair(tasks::batch_hard_soft_margin_loss, Kind::soft_margin),
    std::pair(tasks::batch_semi_hard_loss, Kind::semi_hard), std::pair(tasks::batch_all_loss, Kind::all)};

ops::BatchTriplets triplets_of(const config::Task& task) {
  ops::BatchTriplets triplets;
  for (const auto& [word, kind] : kinds) triplets.kind = task.is(tasks::loss_key, word) ? kind : triplets.kind;
  const bool is_cosine = task.is(tasks::similarity_key, "cosine");
  triplets.similarity = is_cosine ? ops::Similarity::cosine : ops::Similarity::euclidean;
  triplets.margin = static_cast<float>(task.number(tasks::margin_key));
  return triplets;
}

layers::StepLossKind triplet_loss(const config::Task& task) {
  return {.compute =
              [triplets = triplets_of(task)](const layers::StepOutputs& all, std::int64_t begin, float scale,
                                             float* row_losses, core::Tensor<float> d_logits) {
                ops::batch_triplet_loss(all.logits, all.targets<std::int32_t>(), triplets, begin, scale, all.scratch,
                                        row_losses, d_logits);
              },
          .targets = [](const core::Targets& targets) -> const void* { return targets.get<core::ClassTargets>().data; },
          .scratch = ops::BatchTriplets::scratch,
          .looks_ahead = true};
}

/// The loss of an evaluation is one of embeddings of many micro-batches, which the results make.
void no_loss(const layers::LossInput& in) {
  ops::set_zero({in.row_losses, static_cast<std::size_t>(in.outputs.rows)});
}

/// Gets the embeddings of all texts, in the order of the data.
class NeighbourCollector : public ResultCollector {
 public:
  NeighbourCollector(const data::ShardReader& reader, const ops::BatchTriplets& loss)
      : reader_(reader), neighbours_(loss) {}

  void add(std::span<const float> kept) override { neighbours_.add(kept, reader_.classes()[sample_++]); }

  void finish(metrics::Evaluation* evaluation) override {
    if (evaluation == nullptr) return;
    neighbours_.finish();
    const ClassNeighbours::Sums& found = neighbours_.sums();
    const metrics::Sums sums = evaluation->sums_of(metrics::class_neighbours());
    const std::array values = {found.texts, found.nearest, found.r_precision, found.average_precision};
    core::require(sums.size() == values.size(), "nearest texts have other sums than their metrics");
    std::copy(values.begin(), values.end(), sums.begin());
    evaluation->set_loss({.sum = found.loss, .targets = found.loss_texts});
  }

 private:
  const data::ShardReader& reader_;
  std::size_t sample_ = 0;
  ClassNeighbours neighbours_;
};

/// Throws Error(data) if no text has both a positive and a negative.
void require_pairs(const config::Task&, const data::ShardReader& reader) {
  if (reader.planned()) return;
  std::vector<std::int64_t> counts(reader.info().label_names.size());
  for (const std::int32_t each : reader.classes()) ++counts.at(static_cast<std::size_t>(each));
  const auto several = std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 1; });
  const auto there = std::count_if(counts.begin(), counts.end(), [](std::int64_t count) { return count > 0; });
  const std::string begin = reader.files().front() + ": the task \"class_embedding\" ";
  if (there == 1) {
    throw core::Error(core::ExitCode::data, begin + "compares texts of different classes, and all " +
                                                core::with_commas(reader.samples()) +
                                                " texts have one: name another column in [source] label of "
                                                "bert_hpc_prep's input.");
  }
  if (several == 0) {
    throw core::Error(core::ExitCode::data, begin + "compares texts of one class, and each of the " +
                                                core::counted(there, "class", "classes") +
                                                " has a single text: name a column with fewer values in [source] label "
                                                "of bert_hpc_prep's input, or prepare pairs for the task "
                                                "\"embedding\".");
  }
}

std::string loss_text(const config::Task& task) {
  const ops::BatchTriplets triplets = triplets_of(task);
  const bool is_cosine = triplets.similarity == ops::Similarity::cosine;
  const std::string margin = " by a margin of " + core::format_number(static_cast<double>(triplets.margin));
  std::string text;
  switch (triplets.kind) {
    case Kind::hard:
      text = "the step's nearest text of another class is to be farther than the farthest of the same class" + margin;
      break;
    case Kind::soft_margin:
      text =
          "the step's nearest text of another class is to be farther than the farthest of the same class, with a "
          "soft margin";
      break;
    case Kind::semi_hard:
      text = "of each pair of a class, the nearest text of another class that is farther is to be so" + margin;
      break;
    case Kind::all:
      text = "of all triplets of the step, the text of another class is to be farther" + margin;
      break;
  }
  return text + "; distance: " + (is_cosine ? "1 − cosine" : "Euclidean");
}

Objective with_mean() {
  return {.task = tasks::find("class_embedding"),
          .head = layers::token_embedding_head(ops::Pooling::mean, no_loss, 0),
          .step_losses = {{tasks::batch_hard_loss, triplet_loss},
                          {tasks::batch_hard_soft_margin_loss, triplet_loss},
                          {tasks::batch_semi_hard_loss, triplet_loss},
                          {tasks::batch_all_loss, triplet_loss}},
          .results =
              [](const ResultsRequest& data) {
                return collected_outputs(data.outputs, [&reader = data.reader, loss = triplets_of(data.task)] {
                  return std::make_unique<NeighbourCollector>(reader, loss);
                });
              },
          .check_labels = require_pairs,
          .training_lines = [](const TrainingFacts& training) -> Lines {
            return {{"loss", loss_text(training.task)}, {"pooling", training.task.word(tasks::pooling_key)}};
          }};
}

const Objective& with_settings(const config::Task& task) {
  static const PoolingVariants variants(with_mean());
  return variants.of(task);
}

}  // namespace

Objective class_embedding() {
  Objective objective = with_mean();
  objective.with = with_settings;
  return objective;
}

}  // namespace bert_hpc::objectives
