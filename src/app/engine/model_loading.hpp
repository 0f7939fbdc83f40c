// The parameters' first values: initialised, or from a Hugging Face folder.
#pragma once

#include <string>

#include "app/engine/model_instance.hpp"
#include "bert_hpc/config/config.hpp"

namespace bert_hpc::app {

/// Lines for the log about values that come from a folder.
struct LoadNotes {
  std::string lines;         ///< what the folder lacks and has: each with its line end
  std::string head;          ///< a sentence: what becomes of the folder's classifier; empty: it is as it was
  bool is_doubtful = false;  ///< whether that is a warning
  std::string random_head;   ///< a warning: which random values of the head are not trained
};

/// For --validate: the notes of load_values(). Throws Error if model.pretrained cannot give the model its values.
LoadNotes check_pretrained(const ModelInstance& model, const config::Config& input);

/// Whether the head of a training that leaves it as it is has other values than model.pretrained: new ones, an
/// adapter's, or rows in another order. False if the head is trained. Reads headers alone.
bool keeps_new_head(const ModelInstance& model, const config::Config& input);

/// Collective over all ranks, after connect(). The ranks of the first replica initialise or load their parameters, the
/// other replicas receive them. Returns the notes on rank 0.
LoadNotes load_values(ModelInstance& model, const config::Config& input);

/// Collective. Loads the parameters from a Hugging Face folder that has all of them.
void load_folder(ModelInstance& model, const std::string& folder);

}  // namespace bert_hpc::app
