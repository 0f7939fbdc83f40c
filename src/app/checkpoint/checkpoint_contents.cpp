#include "bert_hpc/app/checkpoint/checkpoint_contents.hpp"

#include "bert_hpc/io/checkpoint_file.hpp"

namespace bert_hpc::app {

io::CheckpointFolder checkpoint_folder(const config::Config& input) {
  return io::CheckpointFolder(input.run.directory + "/checkpoints");
}

std::int64_t snapshot_bytes(const train::ShardPlan& plan) {
  return plan.arena / plan.ranks * static_cast<std::int64_t>(sizeof(float)) +
         plan.trainable / plan.ranks * ops::bytes_per_parameter(plan.settings.states);
}

std::int64_t checkpoint_bytes(const ModelInstance& model, std::span<const ops::StateTensor> states, int ranks) {
  std::int64_t bytes = 0;
  for (const core::WholeTensor& tensor : whole_tensors(model)) {
    const std::int64_t of_states = tensor.trainable ? ops::bytes_per_parameter(states) : 0;
    bytes += tensor.elements() * (static_cast<std::int64_t>(sizeof(float)) + of_states);
  }
  return bytes + (ranks + 1) * io::checkpoint_file_bytes(0, 0);
}

std::vector<core::WholeTensor> whole_tensors(const ModelInstance& model) {
  std::vector<core::WholeTensor> tensors;
  for (const core::ParameterSpec& spec : model.all_parameters()) {
    if (spec.copy_of.empty()) tensors.push_back({spec.name, core::whole_shape(spec.shape, spec.shard), spec.trainable});
  }
  return tensors;
}

}  // namespace bert_hpc::app
