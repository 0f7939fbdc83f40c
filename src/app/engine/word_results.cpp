// On rank 0: the classes of all words, sentence by sentence, and how many entities they name.
#include <algorithm>
#include <vector>

#include "bert_hpc/app/engine/sample_results.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/metrics/entities.hpp"
#include "bert_hpc/metrics/registry.hpp"

namespace bert_hpc::app {
namespace {

class WordResults : public SampleResults {
 public:
  WordResults(const data::ShardReader& reader, std::int64_t outputs)
      : reader_(reader),
        outputs_(static_cast<std::size_t>(outputs)),
        types_(metrics::entity_types(reader.info().label_names)) {
    for (const std::string& name : reader.info().label_names) {
      if (!types_.empty()) tags_.push_back(*metrics::parse_tag(name));
    }
  }

  std::int64_t width(std::int64_t sample) const override { return reader_.words().count(sample); }

  /// The class of each word, which a float holds exactly below 2²⁴.
  void keep(std::int64_t, std::span<const float> outputs, std::span<float> kept) const override {
    for (std::size_t word = 0; word < kept.size(); ++word) {
      const auto row = outputs.subspan(word * outputs_, outputs_);
      kept[word] = static_cast<float>(std::max_element(row.begin(), row.end()) - row.begin());
    }
  }

  void begin(Predictions* predictions) override {
    predictions_ = predictions;
    sample_ = 0;
    counts_.clear();
    gold_.clear();
    found_.clear();
  }

  void add(std::span<const float> kept) override {
    if (starts_sentence()) count();
    for (std::size_t i = 0; i < kept.size(); ++i) {
      const auto predicted = static_cast<std::int32_t>(kept[i]);
      if (predictions_ != nullptr) predictions_->words.push_back(predicted);
      if (types_.empty() || reader_.word_classes().empty()) continue;
      const auto word = static_cast<std::size_t>(reader_.words().offsets[static_cast<std::size_t>(sample_)]) + i;
      gold_.push_back(tags_[static_cast<std::size_t>(reader_.word_classes()[word])]);
      found_.push_back(tags_.at(static_cast<std::size_t>(predicted)));
    }
    ++sample_;
  }

  void finish(metrics::Evaluation* evaluation) override {
    count();
    if (evaluation != nullptr) {
      metrics::add_entities(counts_, types_, evaluation->sums_of(metrics::entities()));
    }
  }

 private:
  /// Else the sample is a further window of a long sentence.
  bool starts_sentence() const {
    const auto at = static_cast<std::size_t>(sample_);
    return at == 0 || reader_.source_index()[at] != reader_.source_index()[at - 1];
  }

  void count() {
    metrics::count_entities(gold_, found_, counts_);
    gold_.clear();
    found_.clear();
  }

  const data::ShardReader& reader_;
  std::size_t outputs_;
  std::vector<std::string> types_;
  std::vector<metrics::Tag> tags_;  // of the label names, where all are tags
  Predictions* predictions_ = nullptr;
  std::int64_t sample_ = 0;
  std::vector<metrics::Tag> gold_, found_;  // of the sentence under way
  metrics::CountsByType counts_;
};

}  // namespace

std::unique_ptr<SampleResults> word_results(const data::ShardReader& reader, std::int64_t outputs) {
  require_texts(reader);
  return std::make_unique<WordResults>(reader, outputs);
}

}  // namespace bert_hpc::app
