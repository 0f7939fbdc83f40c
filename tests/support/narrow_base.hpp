// A model with the layers of BERT-base that trains in milliseconds, and a batch for it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "support/host_batch.hpp"

namespace bert_hpc::test {

/// BERT-base's layers, narrow: counts do not depend on widths.
inline model::ModelConfig narrow_base() {
  model::ModelConfig config;
  config.vocab_size = 100;
  config.hidden_size = 32;
  config.num_hidden_layers = 12;
  config.num_attention_heads = 2;
  config.intermediate_size = 64;
  config.max_position_embeddings = 64;
  config.label_names = {"a", "b"};
  return config;
}

/// A classification batch with two classes.
inline std::unique_ptr<HostBatch> narrow_batch(int sequences) {
  std::vector<std::int32_t> ids, types, lengths, classes;
  for (int s = 0; s < sequences; ++s) {
    lengths.push_back(8 + s % 5);
    classes.push_back(s % 2);
    for (int p = 0; p < lengths.back(); ++p) ids.push_back(5 + (7 * s + p) % 90);
  }
  types.resize(ids.size(), 0);
  auto batch = std::make_unique<HostBatch>(ids, types, lengths);
  batch->set_classes(classes);
  return batch;
}

/// The bounds of a single batch; the head reads one row of each sequence.
inline layers::BatchBounds bounds_of(const core::MicroBatch& batch) {
  layers::BatchBounds bounds;
  bounds.tokens = batch.tokens.count;
  bounds.sequences = bounds.selected = batch.sequences;
  bounds.max_length = batch.max_length;
  return bounds;
}

}  // namespace bert_hpc::test
