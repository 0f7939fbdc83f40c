// What a run predicted for every sample of a split, and its two files: predictions.h5 and predictions.csv.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/config/config.hpp"
#include "bert_hpc/data/shard_reader.hpp"
#include "bert_hpc/io/answer_files.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::app {

/// Every sample's result, in the data's order; rank 0 only.
struct Predictions {
  std::int64_t outputs = 0;   ///< columns of logits
  std::vector<float> logits;  ///< (samples, outputs)
  // Instead of logits:
  std::vector<io::AnsweredQuestion> answers;  ///< of tasks with answers
  std::vector<std::int32_t> words;            ///< of tasks with classes of words: that of each word
};

/// What the files say besides.
struct PredictionsFacts {
  const objectives::Objective& objective;  ///< which predicts for each sample
  std::string split;                       ///< "test" or "validation"
  std::vector<std::string> label_names;    ///< of the outputs
  double least_output = 0;                 ///< as of metrics::EvaluatedSet
};

/// Of sets of label names: a name is in the predicted set from this output on. It is the logit of [task] threshold, 0
/// for the default of 0.5, which also holds until a threshold is found.
double least_output(const config::Task& task);
/// The logit whose sigmoid is this.
double output_of(double probability);

/// DIRECTORY/predictions.h5 and DIRECTORY/predictions.csv of the samples of `reader`, with their labels where it has
/// them. A block of rows at a time. Of tasks with answers the files of io/answer_files.hpp, with classes of words that
/// of io/conll_file.hpp, of those that rank candidates those of app/engine/ranking_files.hpp. The caller holds HDF5's
/// lock. Throws Error(files).
void write_predictions(const std::string& directory, const PredictionsFacts& facts, const Predictions& predictions,
                       const data::ShardReader& reader);

}  // namespace bert_hpc::app
