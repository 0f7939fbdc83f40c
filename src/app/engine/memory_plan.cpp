#include "bert_hpc/app/engine/memory_plan.hpp"

#include "bert_hpc/app/engine/model_instance.hpp"
#include "bert_hpc/comm/mpi_communicator.hpp"

namespace bert_hpc::app {

std::int64_t total(const MemoryPlan& plan) {
  std::int64_t bytes = 0;
  for (const auto& [name, part] : plan) bytes += part;
  return bytes;
}

MemoryPlan model_memory(const ModelInstance& model, bool trains) {
  const std::int64_t arena = model.parameters.arena_size() * static_cast<std::int64_t>(sizeof(float));
  MemoryPlan plan;
  if (!trains) plan.emplace_back("parameters", arena);  // with gradients and states they are in the shard plan
  std::int64_t dropout_bytes = 0;
  for (const model::Stage& stage : model.stages) dropout_bytes += stage.dropout_bytes();
  plan.emplace_back("activations", model.workspace.bytes() - dropout_bytes);
  if (dropout_bytes > 0) plan.emplace_back("dropout's decisions in attention", dropout_bytes);
  if (model.grid.tensor > 1) {
    plan.emplace_back("token rows shared by tensor ranks",
                      layers::TensorExchange::bytes(model.exchanged_rows(), model.config.hidden_size, model.grid.tensor,
                                                    model.storage));
  }
  if (model.grid.pipeline > 1) {
    plan.emplace_back("buffers for messages between stages",
                      comm::message_room_bytes(model.message_bytes(), model.grid.pipeline));
  }
  model.kernels.add_memory(plan);
  return plan;
}

}  // namespace bert_hpc::app
