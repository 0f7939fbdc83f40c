// Number formats of a run, from [precision] and the layout. Pure.
#pragma once

#include <string>

#include "bert_hpc/comm/process_grid.hpp"
#include "bert_hpc/config/config.hpp"
#include "bert_hpc/core/data_type.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/ops/matrix_product.hpp"

namespace bert_hpc::app {

/// Number format in which a model computes.
struct Precision {
  core::DataType storage = core::DataType::fp32;  ///< type of activations and of the matrix products' operands
  bool tf32 = false;                              ///< fp32 products may round their operands to TF32
  bool fp8 = false;                               ///< a training's products of the blocks' weights read 8-bit operands
  bool int8 = false;  ///< a model that is applied: the products of the blocks' weights are of 8-bit integers

  const char* name() const;  ///< word of [precision] compute
};

/// Format that precision.compute names.
Precision precision_of(const config::Config& input);

/// precision_of(input).storage
core::DataType storage_type(const config::Config& input);

ops::ProductSettings product_settings(const Precision& precision, bool reproducible,
                                      core::DataType weight_gradients = core::DataType::fp32);

/// Type in which a training stores gradients of the blocks' weights, with at most `micro_batches` a step of a replica.
core::DataType weight_gradient_type(const config::Config& input, const model::ModelConfig& model,
                                    const comm::GridShape& grid, int micro_batches);

/// Line of the banner: "" if nothing was asked for and they are in fp32. Pure.
std::string weight_gradients_text(const config::Config& input, const model::ModelConfig& model,
                                  const comm::GridShape& grid, int micro_batches);

/// Throws Error(input) if this build or this model, shared by `tensor` ranks, cannot compute in the format. `trains`:
/// the run trains the model.
void require_precision(const Precision& precision, const model::ModelConfig& model, int tensor, bool trains);

}  // namespace bert_hpc::app
