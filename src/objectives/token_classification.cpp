// Classes of words, with the head of Transformers' ForTokenClassification. Rank 0 writes the classes of all words,
// sentence by sentence, into predictions.conll, and counts the entities that they name.
#include <algorithm>
#include <optional>
#include <vector>

#include "bert_hpc/data/row_texts.hpp"
#include "bert_hpc/data/words.hpp"
#include "bert_hpc/metrics/entities.hpp"
#include "bert_hpc/metrics/registry.hpp"
#include "bert_hpc/objectives/conll_file.hpp"
#include "bert_hpc/objectives/objective.hpp"
#include "bert_hpc/objectives/prediction.hpp"

namespace bert_hpc::objectives {
namespace {

/// predictions.conll, sample by sample.
class WordFile {
 public:
  WordFile(const PredictionsFacts& facts, const data::ShardReader& reader, std::mutex& hdf5)
      : names_(facts.label_names),
        reader_(reader),
        rows_(reader, hdf5),
        file_(facts.directory + "/predictions.conll") {}

  /// Adds the words of the next sample. probabilities: of the classes; empty without.
  void add(std::span<const float> classes, std::span<const float> probabilities) {
    core::require(rows_.next(), "each sample has a row of texts");
    if (rows_.starts_row()) {
      if (rows_.sample() > 0) file_.end_sentence();
      words_ = rows_.texts().front();
    }
    const std::span<const std::int32_t> known = reader_.word_classes();
    for (std::size_t i = 0; i < classes.size(); ++i) {
      const std::size_t end = std::min(words_.find(data::word_end), words_.size());
      const std::string_view gold =
          known.empty() ? std::string_view() : names_.at(static_cast<std::size_t>(known[word_]));
      const std::optional<float> probability = probabilities.empty() ? std::nullopt : std::optional(probabilities[i]);
      file_.add(words_.substr(0, end), probability, gold, names_.at(static_cast<std::size_t>(classes[i])));
      words_.remove_prefix(std::min(end + 1, words_.size()));
      ++word_;
    }
  }

  void close() {
    file_.end_sentence();
    file_.close();
  }

 private:
  const std::vector<std::string>& names_;
  const data::ShardReader& reader_;
  data::RowTextsReader rows_;
  ConllFile file_;
  std::string_view words_;  // those of the sentence that are left
  std::size_t word_ = 0;    // of the data set
};

/// What the label names are as tags, where all are.
struct Tags {
  std::vector<std::string> types;
  std::vector<metrics::Tag> of_classes;
};

class WordCollector : public ResultCollector {
 public:
  WordCollector(const data::ShardReader& reader, const Tags& tags, bool probabilities, const PredictionsFacts* files,
                std::mutex& hdf5)
      : reader_(reader), tags_(tags), probabilities_(probabilities) {
    if (files != nullptr) file_.emplace(*files, reader, hdf5);
  }

  void add(std::span<const float> kept) override {
    if (starts_sentence()) count();
    const std::span<const float> classes = kept.first(probabilities_ ? kept.size() / 2 : kept.size());
    if (file_) file_->add(classes, kept.subspan(classes.size()));
    if (!tags_.types.empty() && !reader_.word_classes().empty()) add_tags(classes);
    ++sample_;
  }

  void finish(metrics::Evaluation* evaluation) override {
    count();
    if (evaluation != nullptr) {
      metrics::add_entities(counts_, tags_.types, evaluation->sums_of(metrics::entities()));
    }
    if (file_) file_->close();
  }

 private:
  /// Else the sample is a further window of a long sentence.
  bool starts_sentence() const {
    const auto at = static_cast<std::size_t>(sample_);
    return at == 0 || reader_.source_index()[at] != reader_.source_index()[at - 1];
  }

  void add_tags(std::span<const float> classes) {
    auto word = static_cast<std::size_t>(reader_.words().offsets[static_cast<std::size_t>(sample_)]);
    for (const float predicted : classes) {
      gold_.push_back(tags_.of_classes[static_cast<std::size_t>(reader_.word_classes()[word++])]);
      found_.push_back(tags_.of_classes.at(static_cast<std::size_t>(predicted)));
    }
  }

  void count() {
    metrics::count_entities(gold_, found_, counts_);
    gold_.clear();
    found_.clear();
  }

  const data::ShardReader& reader_;
  const Tags& tags_;
  bool probabilities_;
  std::optional<WordFile> file_;
  std::int64_t sample_ = 0;
  std::vector<metrics::Tag> gold_, found_;  // of the sentence under way
  metrics::CountsByType counts_;
};

class WordResults : public SampleResults {
 public:
  WordResults(const data::ShardReader& reader, const std::vector<std::string>& names, bool probabilities,
              std::mutex& hdf5)
      : reader_(reader), outputs_(names.size()), probabilities_(probabilities), hdf5_(hdf5) {
    const auto outside = std::find(names.begin(), names.end(), "O");
    if (outside != names.end()) outside_ = static_cast<std::int32_t>(outside - names.begin());
    tags_.types = metrics::entity_types(names);
    for (const std::string& name : names) {
      if (!tags_.types.empty()) tags_.of_classes.push_back(*metrics::parse_tag(name));
    }
  }

  std::int64_t width(std::int64_t sample) const override {
    return reader_.words().count(sample) * (probabilities_ ? 2 : 1);
  }

  /// The class of each word, which a float holds exactly below 2²⁴; then, if asked for, the probability of each.
  void keep(std::int64_t sample, std::span<const float> outputs, std::span<float> kept) const override {
    const std::size_t words = kept.size() / (probabilities_ ? 2 : 1);
    for (std::size_t word = 0; word < words; ++word) {
      const auto row = outputs.subspan(word * outputs_, outputs_);
      auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
      if (is_outside(sample, word)) best = static_cast<std::size_t>(*outside_);
      kept[word] = static_cast<float>(best);
      if (probabilities_) kept[words + word] = probability_of(row, best);
    }
  }

  void replace_predicted(std::int64_t sample, std::span<std::int32_t> predicted) const override {
    for (std::size_t word = 0; word < predicted.size(); ++word) {
      if (is_outside(sample, word)) predicted[word] = *outside_;
    }
  }

  std::unique_ptr<ResultCollector> collect(const PredictionsFacts* files) const override {
    return std::make_unique<WordCollector>(reader_, tags_, probabilities_, files, hdf5_);
  }

 private:
  /// Whether the word is outside of entities whatever the model says: it has no characters, and there is such a class.
  bool is_outside(std::int64_t sample, std::size_t word) const {
    return outside_ && reader_.words().is_empty(sample, static_cast<std::int64_t>(word));
  }

  const data::ShardReader& reader_;
  std::size_t outputs_;
  bool probabilities_;
  std::optional<std::int32_t> outside_;  // class "O"
  std::mutex& hdf5_;
  Tags tags_;
};

}  // namespace

Objective token_classification() {
  return {
      .task = tasks::find("token_classification"),
      .head = layers::token_head(),
      .distillation = {layers::soft_class_loss, {"kl", "mse_logits"}},
      .results = [](const ResultsRequest& data) -> std::unique_ptr<SampleResults> {
        require_texts(data.reader);
        return std::make_unique<WordResults>(data.reader, data.label_names, data.probabilities, data.hdf5);
      },
      .set_batches = [](const config::Task& task,
                        data::BatchLoaderOptions& options) { options.all_pieces = task.is_on(tasks::all_pieces_key); }};
}

}  // namespace bert_hpc::objectives
