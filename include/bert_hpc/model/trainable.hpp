// Partial fine-tuning: training the head alone, training biases (BitFit: Ben Zaken, Ravfogel and Goldberg, "BitFit:
// simple parameter-efficient fine-tuning for transformer-based masked language-models", 2022), and freezing the
// embeddings with the lowest blocks. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "bert_hpc/model/model_plan.hpp"

namespace bert_hpc::model {

struct TrainableSettings {
  /// "all"; "head": what a task adds to the encoder, a pooler included; "bitfit": that and every bias, those of layer
  /// norms included; "lora": the adapters of the plan, and with `head` the head where it is not tied to the word
  /// embeddings.
  std::string parameters = "all";
  std::int64_t freeze_layers = 0;  ///< so many blocks, the lowest, and with one or more the embeddings
  bool from_scratch = false;       ///< no value is pretrained
  bool head = true;                ///< "lora": whether the head is trained beside the adapters
};

/// What a training changes, by the names of whole parameters; empty: everything. Word embeddings that are tied to a
/// decoder belong to the embeddings. Throws Error(input) for more blocks than the model has, and where tied embeddings
/// would stay at random values.
Trains trainable_parameters(const ModelPlan& plan, const TrainableSettings& settings);

/// Freezes the parameters that a training does not change: model_parameters() and costs follow. A copy of a parameter
/// is trained as its original is.
void set_trains(ModelPlan& plan, Trains trains);

}  // namespace bert_hpc::model
