#include "app/checkpoint/checkpoint_contents.hpp"

#include "bert_hpc/core/state_blocks.hpp"
#include "bert_hpc/io/checkpoint_file.hpp"

namespace bert_hpc::app {

io::CheckpointFolder checkpoint_folder(const config::Config& input) {
  return io::CheckpointFolder(input.run.directory + "/checkpoints");
}

std::int64_t snapshot_bytes(const train::ShardPlan& plan) {
  const std::int64_t savers = plan.shares_update() ? 1 : plan.ranks;  // of what one rank owns
  return plan.arena / plan.ranks * static_cast<std::int64_t>(sizeof(float)) +
         ops::bytes_of_states(plan.settings.states, plan.optimizer_elements / savers, plan.block_elements / savers);
}

std::int64_t checkpoint_bytes(const ModelInstance& model, std::span<const ops::StateTensor> states, int ranks) {
  std::int64_t bytes = 0;
  for (const core::WholeTensor& tensor : whole_tensors(model)) {
    const std::int64_t elements = tensor.elements();
    const std::int64_t in_blocks = core::state_blocks::are_kept(elements) ? elements : 0;
    bytes += elements * static_cast<std::int64_t>(sizeof(float));
    if (tensor.trainable) bytes += ops::bytes_of_states(states, elements, in_blocks);
  }
  return bytes + (ranks + 1) * io::checkpoint_file_overhead;
}

std::vector<core::WholeTensor> whole_tensors(const ModelInstance& model) {
  std::vector<core::WholeTensor> tensors;
  for (const core::ParameterSpec& spec : model.all_parameters()) {
    if (spec.copy_of.empty()) tensors.push_back({spec.name, core::whole_shape(spec.shape, spec.shard), spec.trainable});
  }
  return tensors;
}

}  // namespace bert_hpc::app
