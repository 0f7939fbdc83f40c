// The kernels of one rank's model: matrix products, attention and, where it trains in FP8, its FP8 products, with their
// scratch memory.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "app/engine/memory_plan.hpp"
#include "app/engine/model_request.hpp"
#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/layers/row_factors.hpp"
#include "bert_hpc/model/stage.hpp"
#include "bert_hpc/ops/int8_product.hpp"

namespace bert_hpc::app {

class ModelKernels {
 public:
  /// `weight_gradients`: type in which the products store gradients of the blocks' weights.
  ModelKernels(const ModelRequest& request, core::DataType weight_gradients);

  /// Makes the FP8 products of the stages' blocks; `allocates`: false in an estimate. Call it before reserve().
  void make_fp8(std::span<const model::Stage> stages, bool allocates);

  /// Plans the scratch memory of these stages for micro-batches within these bounds; zero bounds: none of that kind.
  /// Without `allocates` that of adapters is only planned.
  void reserve(core::ParameterStore& parameters, std::span<model::Stage> stages, std::int64_t head_dim,
               const layers::TensorGroup& group, const layers::BatchBounds& training,
               const layers::BatchBounds& evaluation, core::DataType storage, bool allocates);

  /// Times the variants of the products that take most of a step and keeps the fastest.
  void tune(std::span<model::Stage> stages, const layers::BatchBounds& training);

  layers::Engine training_engine() {
    layers::Engine engine = evaluation_engine();
    engine.fp8 = fp8.get();
    return engine;
  }
  /// Evaluations compute in bf16 where training does in FP8: they are of the model that is exported.
  layers::Engine evaluation_engine() {
    layers::Engine engine{*products, *attention};
    engine.scratch = &layer_scratch_;
    engine.factors = factors_ ? &*factors_ : nullptr;
    return engine;
  }

  layers::RowFactors& factors() { return *factors_; }  ///< after reserve()

  /// Appends the planned bytes.
  void add_memory(MemoryPlan& plan) const;

  std::unique_ptr<ops::MatrixProduct> products;
  std::unique_ptr<ops::Fp8Product> fp8;  ///< null unless make_fp8() was called
  std::unique_ptr<ops::Attention> attention;

 private:
  ops::Int8Product* int8_ = nullptr;  // `products`, if they are in 8-bit integers
  bool reproducible_;
  core::DataType weight_gradients_;
  core::Workspace layer_scratch_;
  std::optional<layers::RowFactors> factors_;
  std::int64_t kept_weights_bytes_ = 0, scratch_bytes_ = 0, fp8_bytes_ = 0, int8_bytes_ = 0;
};

}  // namespace bert_hpc::app
