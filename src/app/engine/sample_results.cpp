#include "bert_hpc/app/engine/sample_results.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::app {
namespace {

class RowResults : public SampleResults {
 public:
  explicit RowResults(std::int64_t outputs) : outputs_(outputs) {}

  std::int64_t width(std::int64_t) const override { return outputs_; }
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    std::copy(outputs.begin(), outputs.end(), kept.begin());
  }
  void begin(Predictions* predictions) override {
    predictions_ = predictions;
    predictions_->outputs = outputs_;
  }
  void add(std::span<const float> kept) override {
    predictions_->logits.insert(predictions_->logits.end(), kept.begin(), kept.end());
  }
  void finish(metrics::Evaluation*) override {}

 private:
  std::int64_t outputs_;
  Predictions* predictions_ = nullptr;
};

}  // namespace

std::unique_ptr<SampleResults> row_results(std::int64_t outputs) {
  return std::make_unique<RowResults>(outputs);
}

void require_texts(const data::ShardReader& reader) {
  if (reader.planned() || reader.info().has_texts) return;
  throw core::Error(core::ExitCode::data,
                    reader.files().front() +
                        ": it holds no texts, which predictions need: it was prepared for training. Prepare these "
                        "files as [source] validation_files or test_files.");
}

}  // namespace bert_hpc::app
