// Labels of a model (config.json's id2label) against those of shards. A class is a number, the place of its label's
// name: where both have names, they must be the same names in the same order. Shards of labels 0, 1, … have none, nor
// has a model of LABEL_0, LABEL_1, ….
#pragma once

#include <string>
#include <vector>

#include "bert_hpc/model/model_config.hpp"

namespace bert_hpc::app {

using LabelNames = std::vector<std::string>;

/// The names in use in a run of this mode (run.mode): the shards' where there are any, but predictions are the model's,
/// and so is an evaluation with shards of numbers.
/// Throws Error(data) where an evaluation's shards have other labels than the model.
LabelNames labels_in_use(const std::string& mode, const LabelNames& model, const LabelNames& shards);

/// A note where model and shards name their labels differently or in another order; empty where they agree.
std::string labels_note(const LabelNames& model, const LabelNames& shards);

/// A line for the log where training starts from the folder's classifier, which was made for labels of other names or
/// in another order: as in Transformers, weights that fit are kept.
std::string kept_classifier(const std::string& folder, const LabelNames& shards);
/// The same of a regression whose predictions had another range there, or none.
std::string kept_range(const std::string& folder, const model::ModelConfig& config);

}  // namespace bert_hpc::app
