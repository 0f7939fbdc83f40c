#include "app/engine/model_kernels.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace bert_hpc::app {

// A model that is not trained gives the same in every run.
ModelKernels::ModelKernels(const ModelRequest& request, core::DataType weight_gradients)
    : products(ops::make_matrix_product(
          request.products,
          product_settings(request.precision, request.reproducible || !request.training, weight_gradients))),
      attention(ops::make_attention(request.attention, request.precision.storage, request.precision.tf32)),
      reproducible_(request.reproducible || !request.training),
      weight_gradients_(weight_gradients) {
  if (!request.precision.int8 || !ops::has_int8()) return;
  std::unique_ptr<ops::Int8Product> quantized = ops::make_int8_product(std::move(products));
  int8_ = quantized.get();
  products = std::move(quantized);
}

void ModelKernels::make_fp8(std::span<const model::Stage> stages, bool allocates) {
  std::vector<ops::Fp8Layer> all;
  for (const model::Stage& stage : stages) {
    for (layers::LinearWeight& w : stage.block_weights()) all.push_back({w.slice, std::move(w.name), w.weights});
  }
  fp8 = ops::make_fp8_product(
      *products, std::move(all),
      {.allocates = allocates, .reproducible = reproducible_, .weight_gradients = weight_gradients_});
}

void ModelKernels::reserve(core::ParameterStore& parameters, std::span<model::Stage> stages, std::int64_t head_dim,
                           const layers::TensorGroup& group, const layers::BatchBounds& training,
                           const layers::BatchBounds& evaluation, core::DataType storage, bool allocates) {
  const layers::BatchBounds bounds = layers::larger(training, evaluation);
  kept_weights_bytes_ = products->keep_weights(parameters);
  if (int8_ != nullptr) {
    std::vector<core::Tensor<const float>> weights;
    for (const model::Stage& stage : stages) {
      for (const layers::LinearWeight& weight : stage.block_weights()) weights.push_back(weight.weights);
    }
    int8_bytes_ = int8_->quantize(parameters, weights);
  }
  for (const ops::ProductExtents& e : model::product_extents(stages, bounds)) scratch_bytes_ = products->reserve(e);
  for (const model::Stage& stage : stages) {
    if (!fp8) break;
    const std::vector<layers::LinearWeight> weights = stage.block_weights();
    for (const ops::ProductExtents& e : model::product_extents(weights, training)) fp8_bytes_ = fp8->reserve(e);
  }
  scratch_bytes_ += attention->reserve(bounds.max_length, head_dim, stages.front().has_relative_positions());
  for (const model::Stage& stage : stages) {
    for (const layers::LinearWeight& weight : stage.linear_weights()) {
      layers::plan_scratch(weight, bounds, group.partial_type(storage), layer_scratch_);
    }
  }
  factors_.emplace(parameters, group);
  scratch_bytes_ += layer_scratch_.bytes() + factors_->bytes();
  if (allocates) layer_scratch_.allocate();
}

void ModelKernels::tune(std::span<model::Stage> stages, const layers::BatchBounds& training) {
  const auto work = [](const ops::ProductExtents& e) {
    return static_cast<double>(e.rows) * static_cast<double>(e.in * e.out);
  };
  const std::vector<ops::ProductExtents> all = model::product_extents(stages, training);
  double most = 0;
  for (const ops::ProductExtents& e : all) most = std::max(most, work(e));
  // Trying takes time and memory: products of a few rows, such as a classifier's, take next to none of a step.
  constexpr double worth_trying = 0.01;
  for (const ops::ProductExtents& e : all) {
    if (work(e) >= worth_trying * most) products->tune(e);
  }
  for (const model::Stage& stage : stages) {
    if (!fp8) break;
    for (const ops::ProductExtents& e : model::product_extents(stage.block_weights(), training)) fp8->tune(e);
  }
}

void ModelKernels::add_memory(MemoryPlan& plan) const {
  if (kept_weights_bytes_ > 0) plan.emplace_back("weights in 16 bits", kept_weights_bytes_);
  if (int8_ != nullptr) plan.emplace_back("quantized weights", int8_bytes_);
  plan.emplace_back("packed weights and scratch", scratch_bytes_);
  if (fp8) plan.emplace_back("FP8 operands and scales", fp8_bytes_);
}

}  // namespace bert_hpc::app
