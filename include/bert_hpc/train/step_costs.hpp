// What a part of a BERT costs per micro-batch: operations of its matrix products, bytes that everything else moves,
// memory for activations. Counted from the layers' formulas; good to some ten per cent, for planning. Pure.
//
// A product of (r, k) by (k, n) is 2·r·k·n operations. A block has products of 4·H² + 2·H·I weights a token (H hidden,
// I intermediate) and attention of 4·H·s a token (s its sequence's length). Backward does as much again for the inputs
// (attention twice: five products instead of two) and once more for the weights (attention none). The last block
// computes keys and values for all tokens, the rest for the rows that the head reads alone. Parts are ranges of
// sublayers of blocks (model/partition.hpp).
#pragma once

#include <cstdint>

#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/core/machine_description.hpp"
#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::train {

/// The size of a micro-batch.
struct MicroBatchShape {
  double tokens = 0, squared_lengths = 0;  ///< Σ length, Σ length² over its sequences
  double head_rows = 0;                    ///< rows that the head reads: sequences, or masked tokens
};

struct Work {
  double flops = 0, bytes = 0;
  double attention = 0;  ///< of the operations, those of scores and weighted sums
  double moved = 0;      ///< of the bytes, those of activations that element-wise kernels read and write
  double head_rows = 0;  ///< query rows times heads
  double passes = 0;     ///< of sublayers

  Work& operator+=(const Work& other) {
    flops += other.flops;
    bytes += other.bytes;
    attention += other.attention;
    moved += other.moved;
    head_rows += other.head_rows;
    passes += other.passes;
    return *this;
  }
};

/// Of one micro-batch: the passes that schedules tell apart.
struct PassWork {
  Work forward, backward_input, backward_weight;
};

/// The model as far as costs go.
struct ModelShape {
  std::int64_t blocks = 0;
  double hidden = 0, intermediate = 0, heads = 0, vocabulary = 0, positions = 0, types = 0, outputs = 0;
  bool ties_word_embeddings = false;
  double activation = 4;  ///< bytes of an element of activations and the gradients with respect to them
};
ModelShape model_shape(const model::ModelConfig& config, const layers::HeadKind& kind,
                       core::DataType storage = core::DataType::fp32);

/// Shared equally by `tensor` ranks; work of one of them.
PassWork part_work(const ModelShape& shape, const model::ModelRange& part, const MicroBatchShape& batch, int tensor);

/// Rows of what goes into this sublayer, or behind the last one: all, or those that the head reads.
double rows_into(const ModelShape& shape, std::int64_t sublayer, const MicroBatchShape& batch);

/// GEMMs, attention and moves do not overlap: each over its rate, and the overheads. The machine's GEMM rate is that of
/// the model's size (core::at_hidden()).
double seconds(const Work& work, const core::MachineDescription& machine);

/// Parameters of one rank; bytes of activations that a micro-batch in flight holds there; bytes of gradients that one
/// between backward_input and backward_weight holds beside them.
double part_parameters(const ModelShape& shape, const model::ModelRange& part, int tensor);
double activation_bytes(const ModelShape& shape, const model::ModelRange& part, const MicroBatchShape& batch,
                        int tensor);
double deferred_bytes(const ModelShape& shape, const model::ModelRange& part, const MicroBatchShape& batch, int tensor);

}  // namespace bert_hpc::train
