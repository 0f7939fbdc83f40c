// Labels of a model (config.json's id2label) and those of shards. A class is a number, the index of its label's name.
// The rows of the model's classifier follow the names if both have names. Shards of labels 0, 1, … have none, nor has
// a model of LABEL_0, LABEL_1, ….
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

using LabelNames = std::vector<std::string>;

/// The labels of a run, by output of the model: the shards' if there are any, but the model's in predictions and in
/// an evaluation with shards of numbers. In an evaluation, labels of the model that the shards lack come last.
/// Throws Error(data) if an evaluation's shards have labels that the model has not.
LabelNames labels_in_use(const config::Config& input, const LabelNames& model, const LabelNames& shards);

/// Use of a pretrained classifier in a run with these labels.
struct ClassifierUse {
  bool is_new = false;             ///< it is replaced by a fresh one
  std::vector<std::int64_t> rows;  ///< (labels): its row for each label; empty: as they are
  std::string note;                ///< a sentence for the log; empty: the labels are the same
  bool is_doubtful = false;        ///< whether the note is a warning
};
/// `model`: labels of the classifier; `labels`: labels_in_use(), as many as it has outputs, or others.
ClassifierUse classifier_use(const config::Config& input, const LabelNames& model, const LabelNames& labels);

/// A note if a training keeps a classifier of which config.json names another number of labels than it has outputs, as
/// the shards have labels; else empty.
std::string unnamed_note(const LabelNames& model, const LabelNames& labels);

/// A note if an evaluation's shards go by number: what each number is; else empty.
std::string numbers_note(const LabelNames& in_use, const LabelNames& shards);

/// The folder whose config.json names the labels of the pretrained model: that of an adapter that a run has written.
std::string folder_of_labels(const config::Model& model);

/// Advice if a training replaces a classifier of more labels, all of the shards' among them; else empty.
std::string replaced_classifier(const config::Config& input, const LabelNames& model, const LabelNames& labels);

/// A line for the log if training starts from a regression whose predictions had another range, or none.
std::string kept_range(const std::string& folder, const model::ModelConfig& config);

/// Gives the rows of the layer `classifier` and its bias the order `rows`.
void reorder_rows(const std::string& classifier, const std::vector<std::int64_t>& rows,
                  core::ParameterStore& parameters);

}  // namespace bert_hpc::app
