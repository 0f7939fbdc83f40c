#include "app/engine/precision.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/fp8_product.hpp"
#include "bert_hpc/ops/int8_product.hpp"
#include "bert_hpc/train/weight_gradients.hpp"

namespace bert_hpc::app {

const char* Precision::name() const {
  return fp8 ? "fp8" : int8 ? "int8" : tf32 ? "tf32" : core::name_of(storage);
}

Precision precision_of(const config::Config& input) {
  const std::string& compute = input.precision.compute;
  Precision precision{.tf32 = compute == "tf32", .fp8 = compute == "fp8", .int8 = compute == "int8"};
  if (compute == "bf16" || precision.fp8) precision.storage = core::DataType::bf16;
  if (compute == "fp16") precision.storage = core::DataType::fp16;
  return precision;
}

core::DataType storage_type(const config::Config& input) {
  return precision_of(input).storage;
}

ops::ProductSettings product_settings(const Precision& precision, bool reproducible, core::DataType weight_gradients) {
  return {.compute = precision.storage,
          .tf32 = precision.tf32,
          .reproducible = reproducible,
          .weight_gradients = weight_gradients};
}

core::DataType weight_gradient_type(const config::Config& input, const model::ModelConfig& model,
                                    const comm::GridShape& grid, int micro_batches) {
  return train::weight_gradient_type({.compute = storage_type(input),
                                      .gpu = core::is_gpu_build(),
                                      .reproducible = input.run.reproducible,
                                      .offload = input.parallel.offload,
                                      .micro_batches = micro_batches,
                                      .replicas = grid.data,
                                      .shares_blocks = model::shares_blocks(model)},
                                     input.precision.weight_gradients);
}

std::string weight_gradients_text(const config::Config& input, const model::ModelConfig& model,
                                  const comm::GridShape& grid, int micro_batches) {
  if (weight_gradient_type(input, model, grid, micro_batches) == core::DataType::bf16)
    return "of the blocks' weights in bf16";
  if (input.precision.weight_gradients != "bf16") return {};
  return std::string("of the blocks' weights in fp32, because ") +
         (grid.data > 1       ? "replicas"
          : micro_batches > 1 ? "several micro-batches"
                              : "several blocks") +
         " add to them";
}

void require_precision(const Precision& precision, const model::ModelConfig& model, int tensor, bool trains) {
  if (precision.tf32 && !ops::has_tf32()) {
    throw core::Error(
        core::ExitCode::input,
        "[precision] compute = \"tf32\" needs an NVIDIA GPU, and this build computes on CPUs: use \"fp32\", or "
        "\"bf16\" for less memory and time, or a CUDA build (jobs/build.sh --cuda).");
  }
  if (precision.storage != core::DataType::fp32 && model.hidden_size % 2 != 0) {
    throw core::Error(core::ExitCode::input, std::string("[precision] compute = \"") + precision.name() +
                                                 "\" needs an even hidden_size; this model's is " +
                                                 std::to_string(model.hidden_size) + ": use \"fp32\".");
  }
  if (precision.int8 && !ops::has_int8()) {
    throw core::Error(
        core::ExitCode::input,
        "[precision] compute = \"int8\" needs a build for CPUs, and this one computes on GPUs: use \"bf16\".");
  }
  if ((precision.fp8 || precision.int8) && !model::has_attention(model.family)) {
    throw core::Error(core::ExitCode::input, std::string("[precision] compute = \"") + precision.name() +
                                                 "\" is for the linear layers of models with attention, and a \"" +
                                                 model.family + "\" has none: use \"" +
                                                 (precision.int8 ? "fp32" : "bf16") + "\".");
  }
  const std::int64_t multiple = ops::fp8_granularity * tensor;
  if (!precision.fp8 || !trains) return;
  const std::int64_t columns_of_keys = model.head_dim() * model.key_value_heads();
  if (model.hidden_size % multiple == 0 && model.intermediate_size % multiple == 0 && columns_of_keys % multiple == 0) {
    return;
  }
  std::string keys;
  if (columns_of_keys != model.hidden_size) {
    keys = ", and its keys, which need it too, have " + std::to_string(columns_of_keys) + " columns";
  }
  throw core::Error(
      core::ExitCode::input,
      "[precision] compute = \"fp8\" needs a hidden_size and an intermediate_size that are multiples of " +
          std::to_string(ops::fp8_granularity) + " on every rank, so of " + std::to_string(multiple) +
          " here; this model's are " + std::to_string(model.hidden_size) + " and " +
          std::to_string(model.intermediate_size) + keys + ": use \"bf16\".");
}

}  // namespace bert_hpc::app
