// Number formats of a run, from [precision] and the layout. Pure.
#pragma once

#include <string>

#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::app {

/// Type of activations and of the matrix products' operands: precision.compute.
core::DataType storage_type(const config::Config& input);

/// Of a model that this run trains, or only applies.
ops::ProductSettings product_settings(const config::Config& input, bool trains,
                                      core::DataType weight_gradients = core::DataType::fp32);

/// Type in which a training stores gradients of the blocks' weights, with at most `micro_batches` a step of a replica.
core::DataType weight_gradient_type(const config::Config& input, const comm::GridShape& grid, int micro_batches);

/// Line of the banner: "" if nothing was asked for and they are in fp32. Pure.
std::string weight_gradients_text(const config::Config& input, const comm::GridShape& grid, int micro_batches);

/// Throws Error(input) where this build or this model, shared by `tensor` ranks, cannot compute in the format.
/// `trains`: this run trains the model.
void require_precision(const config::Config& input, const model::ModelConfig& model, int tensor, bool trains);

}  // namespace bert_hpc::app
