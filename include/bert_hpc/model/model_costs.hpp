// What a part of a model costs per micro-batch: the sum of its layers' costs (layers/costs.hpp). The partition, the
// simulation, measurements and reported FLOP/s all read these sums. Pure.
#pragma once

#include "bert_hpc/core/machine_description.hpp"
#include "bert_hpc/layers/costs.hpp"
#include "bert_hpc/model/partition.hpp"

namespace bert_hpc::model {

/// Costs of a range of a model, shared equally by `tensor` ranks; of one of them.
layers::LayerCosts range_costs(const ModelPlan& plan, const ModelRange& range, const layers::BatchShape& batch,
                               int tensor = 1);

/// Parameters of one of `tensor` ranks, and those of them that are trained.
double range_parameters(const ModelPlan& plan, const ModelRange& range, int tensor = 1);
double range_trainable_parameters(const ModelPlan& plan, const ModelRange& range, int tensor = 1);

/// Rows of what goes into this sublayer, or comes after the last one: all tokens, or those that the head reads.
double rows_into(const ModelPlan& plan, std::int64_t sublayer, const layers::BatchShape& batch);

/// Floating-point operations of one training step's products. Where everything is trained, they are three times those
/// of forward: 72·L·H² per token and 12·L·H·s for attention (intermediate size 4·H, sequences of s tokens) and 6·H·(H +
/// outputs) for each row that the head reads. Layers without a backward pass have a third of them, and gradients of
/// frozen weights take none. What selection saves in the blocks is not subtracted, so that figures compare with other
/// programs'.
double training_flops(const ModelPlan& plan, const layers::BatchShape& batch);

/// Seconds on a machine. GEMMs, attention and moves do not overlap: each over its rate, and the overheads. The
/// machine's GEMM rate is that of the model's size (core::at_hidden()).
double seconds(const layers::Work& work, const core::MachineDescription& machine);

}  // namespace bert_hpc::model
