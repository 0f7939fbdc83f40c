// A score for each pair of a query and a passage, as Transformers' sequence classification with one label has it. The
// loss of a pair is the binary cross entropy of its score as a logit; of a query's candidates together, a cross entropy
// over all of them (ops/listwise_cross_entropy.hpp). A batch has what its loss needs.
#include <optional>

#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/objectives/ranking_files.hpp"
#include "bert_hpc/objectives/ranking_scorer.hpp"
#include "bert_hpc/ops/binary_cross_entropy.hpp"
#include "bert_hpc/ops/listwise_cross_entropy.hpp"

namespace bert_hpc::objectives {
namespace {

void loss(const layers::LossInput& in) {
  const float* const relevant = in.targets<core::ValueTargets>().data;
  const auto& lists = in.targets<core::ListTargets>();
  if (lists.data == nullptr) {
    return ops::binary_cross_entropy(in.logits(), relevant, in.scale, in.row_losses, in.d_logits());
  }
  ops::listwise_cross_entropy(in.logits(), lists.data, lists.count, relevant, in.scale, in.row_losses, in.d_logits());
}

bool is_listwise(const config::Task& task) {
  return task.is(tasks::loss_key, tasks::listwise_loss);
}

RankingSettings ranking_settings(const config::Task& task) {
  return {.threshold = task.number(tasks::answer_threshold_key),
          .skips_unanswerable = task.is_on(tasks::skip_unanswerable_key),
          .has_list_loss = is_listwise(task)};
}

class RankingCollector : public ResultCollector {
 public:
  RankingCollector(const data::ShardReader& reader, const RankingSettings& settings, const PredictionsFacts* files,
                   std::mutex& hdf5)
      : sets_loss_(settings.has_list_loss), scorer_(reader, hdf5, settings) {
    if (files != nullptr) files_.emplace(*files, reader, hdf5);
  }

  void add(std::span<const float> kept) override {
    scorer_.add(kept[0]);
    if (files_) files_->add(kept[0]);
  }
  void finish(metrics::Evaluation* evaluation) override {
    if (evaluation != nullptr) {
      scorer_.finish(evaluation->sums_of(metrics::rankings()));
      if (sets_loss_) evaluation->set_loss(scorer_.loss());
    }
    if (files_) files_->close();
  }

 private:
  bool sets_loss_;
  RankingScorer scorer_;
  std::optional<RankingFiles> files_;
};

class RankingResults : public SampleResults {
 public:
  explicit RankingResults(const ResultsRequest& data)
      : reader_(data.reader), hdf5_(data.hdf5), settings_(ranking_settings(data.task)) {}

  std::int64_t width(std::int64_t) const override { return 1; }
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    kept[0] = outputs[0];
  }
  std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const override {
    return std::make_unique<RankingCollector>(reader_, settings_, files, hdf5_);
  }
  bool makes_loss() const override { return settings_.has_list_loss; }

 private:
  const data::ShardReader& reader_;
  std::mutex& hdf5_;
  RankingSettings settings_;
};

std::unique_ptr<SampleResults> make_results(const ResultsRequest& data) {
  require_texts(data.reader);
  return std::make_unique<RankingResults>(data);
}

}  // namespace

Objective answer_ranking() {
  return {
      .task = tasks::find("answer_ranking"),
      .head = layers::sequence_head(loss),
      .predict = predict_scores,
      .distillation = {layers::soft_name_loss, {"kl", "mse_logits", "margin_mse"}},
      .results = make_results,
      .set_batches = [](const config::Task& task,
                        data::BatchLoaderOptions& options) { options.lists = is_listwise(task); },
      .training_lines = [](const TrainingFacts& training) -> Lines {
        return {{"loss", is_listwise(training.task) ? "listwise: cross entropy over each query's candidates"
                                                    : "binary cross entropy of each pair of a query and a candidate"}};
      }};
}

}  // namespace bert_hpc::objectives
