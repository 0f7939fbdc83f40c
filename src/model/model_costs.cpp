#include "bert_hpc/model/model_costs.hpp"

#include "bert_hpc/model/model_parameters.hpp"

namespace bert_hpc::model {

layers::LayerCosts range_costs(const ModelPlan& plan, const ModelRange& range, const layers::BatchShape& batch,
                               int tensor) {
  layers::LayerCosts sum;
  // The input of the range and its gradient, or the embeddings' sum and output.
  sum.saved_bytes = 2 * plan.element_bytes() * rows_into(plan, range.first, batch) * plan.hidden();
  const auto add = [&sum](const layers::LayerCosts& costs) {
    sum.work += costs.work;
    sum.saved_bytes += costs.saved_bytes;
    sum.deferred_bytes += costs.deferred_bytes;
  };
  if (range.embeddings) add(layers::embeddings_costs(plan.embeddings, batch));
  for (std::int64_t i = range.first; i < range.last; ++i) {
    add(layers::sublayer_costs(plan.sublayers[static_cast<std::size_t>(i)], batch, plan.computes_selection(i)));
  }
  if (range.head) add(layers::head_costs(plan.head, batch));
  sum.work /= tensor;
  sum.saved_bytes /= tensor;
  sum.deferred_bytes /= tensor;
  return sum;
}

double range_parameters(const ModelPlan& plan, const ModelRange& range, int tensor) {
  double count = 0;
  for (const core::ParameterSpec& spec : model_parameters(plan, range)) {
    double size = 1;
    for (const std::int64_t extent : spec.shape) size *= static_cast<double>(extent);
    count += size;
  }
  return count / tensor;
}

double rows_into(const ModelPlan& plan, std::int64_t sublayer, const layers::BatchShape& batch) {
  return plan.receives_selection(sublayer) ? batch.head_rows : batch.tokens;
}

double training_flops(const ModelPlan& plan, const layers::BatchShape& batch) {
  double forward = layers::head_costs(plan.head, batch).work.forward.flops;
  for (const layers::SublayerSettings& sublayer : plan.sublayers) {
    forward += layers::sublayer_costs(sublayer, batch, false).work.forward.flops;
  }
  return 3 * forward;
}

double seconds(const layers::Work& work, const core::MachineDescription& machine) {
  const auto rate = [](double special, double general) { return special > 0 ? special : general; };
  return (work.flops - work.attention) / machine.flops + work.attention / rate(machine.attention_flops, machine.flops) +
         (work.bytes - work.moved) / machine.memory_bandwidth +
         work.moved / rate(machine.activation_bandwidth, machine.memory_bandwidth) +
         work.head_rows * machine.attention_row + work.passes * machine.pass_overhead;
}

}  // namespace bert_hpc::model
