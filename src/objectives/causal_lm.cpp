// Causal language modelling, with the head of Transformers' GPT2LMHeadModel. Predictions are of sequences: how many
// tokens are predicted, their mean loss, and its exponential, the perplexity.
#include <cmath>
#include <limits>
#include <numeric>

#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::objectives {
namespace {

constexpr std::int64_t columns = 2;  // predicted tokens, which a float holds exactly below 2²⁴, and mean loss

/// NaN for the loss of a sequence of one token.
PredictedRows predict_losses(const SampleOutputs& samples) {
  std::vector<std::int32_t> tokens;
  std::vector<float> losses, perplexities;
  for (std::int64_t row = 0; row < samples.rows; ++row) {
    const std::span<const float> own = samples.outputs.subspan(static_cast<std::size_t>(row * columns), columns);
    tokens.push_back(static_cast<std::int32_t>(own[0]));
    losses.push_back(own[1]);
    perplexities.push_back(std::exp(own[1]));
  }
  PredictedRows predicted;
  predicted.stored = {
      {"predicted_tokens", std::move(tokens)}, {"loss", std::move(losses)}, {"perplexity", std::move(perplexities)}};
  predicted.shown = predicted.stored;
  return predicted;
}

class SequenceLosses : public SampleResults {
 public:
  SequenceLosses(const data::ShardReader& reader, std::mutex& hdf5) : rows_(row_results(reader, columns, hdf5)) {}

  std::int64_t width(std::int64_t) const override { return columns; }
  void keep(std::int64_t, std::span<const float> losses, std::span<float> kept) const override {
    const double count = static_cast<double>(losses.size()), sum = std::accumulate(losses.begin(), losses.end(), 0.0);
    kept[0] = static_cast<float>(count);
    kept[1] = losses.empty() ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(sum / count);
  }
  bool keeps_losses() const override { return true; }
  bool is_for_files_alone() const override { return true; }
  std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const override {
    return rows_->collect(files);
  }

 private:
  std::unique_ptr<SampleResults> rows_;
};

}  // namespace

Objective causal_lm() {
  return {.task = tasks::find("causal_lm"),
          .head = layers::causal_lm_head(),
          .predict = predict_losses,
          .distillation = {layers::soft_class_loss, {"kl", "mse_logits"}},
          .results = [](const ResultsRequest& data) -> std::unique_ptr<SampleResults> {
            return std::make_unique<SequenceLosses>(data.reader, data.hdf5);
          }};
}

}  // namespace bert_hpc::objectives
