#include "bert_hpc/model/model_costs.hpp"

#include "bert_hpc/model/model_parameters.hpp"

namespace bert_hpc::model {
namespace {

void scale(layers::Work& work, double factor) {
  for (double* amount : {&work.flops, &work.bytes, &work.attention, &work.moved, &work.attention_rows})
    *amount *= factor;
}

/// Costs of the part of a layer that is trained.
layers::LayerCosts trained(layers::LayerCosts costs, const LayerTraining& training) {
  if (training.backward) {
    scale(costs.work.backward_weight, training.weights);
    return costs;
  }
  return {.work = {.forward = costs.work.forward, .backward_input = {}, .backward_weight = {}}};
}

/// Adds the products with the weights of layers whose adapters have magnitudes (layers/low_rank_adapter.hpp): one more
/// for the gradients of the magnitudes, with dropout one more in each of the other passes. Products of the rank's size
/// are left out.
void add_magnitudes(const layers::SublayerSettings& sublayer, const layers::BatchShape& batch, bool selects,
                    layers::PassWork& work) {
  const layers::AdapterSettings& a = sublayer.adapters;
  if (!a.any() || !a.magnitudes) return;
  double flops = 0;
  for (const layers::SublayerLinear& layer : sublayer.kind->linear_layers(sublayer)) {
    const double rows = selects && !layer.all_tokens ? batch.logit_positions : batch.tokens;
    if (a.adapts(layer.name)) flops += 2 * static_cast<double>(layer.in) * static_cast<double>(layer.out) * rows;
  }
  work.backward_weight.flops += flops;
  if (a.dropout <= 0) return;
  work.forward.flops += flops;
  work.backward_input.flops += flops;
}

}  // namespace

layers::LayerCosts range_costs(const ModelPlan& plan, const ModelRange& range, const layers::BatchShape& batch,
                               int tensor) {
  layers::LayerCosts sum;
  // The input of the range and its gradient, or the embeddings' sum and output.
  sum.saved_bytes =
      2 * plan.element_bytes() * rows_into(plan, range.first, batch) * static_cast<double>(plan.width(range.first));
  const auto add = [&sum](const layers::LayerCosts& costs) {
    sum.work += costs.work;
    sum.saved_bytes += costs.saved_bytes;
    sum.deferred_bytes += costs.deferred_bytes;
  };
  if (range.embeddings) add(trained(plan.input->costs(batch, plan.storage), plan.input_training()));
  for (std::int64_t i = range.first; i < range.last; ++i) {
    const layers::SublayerSettings& sublayer = plan.sublayers[static_cast<std::size_t>(i)];
    layers::LayerCosts costs =
        trained(sublayer.kind->costs(sublayer, batch, plan.computes_selection(i)), plan.sublayer_training(i));
    add_magnitudes(sublayer, batch, plan.computes_selection(i), costs.work);
    if (plan.recomputes(i)) {
      costs.work.backward_input += costs.work.forward;
      const double rows = plan.computes_selection(i) ? batch.logit_positions : batch.tokens;
      const auto columns = static_cast<double>(sublayer.hidden);
      costs.saved_bytes = plan.keeps_result(i) ? plan.element_bytes() * rows * columns : 0;
    }
    add(costs);
  }
  if (range.head) add(trained(layers::head_costs(plan.head, batch), plan.head_training()));
  sum.work /= tensor;
  sum.saved_bytes /= tensor;
  sum.deferred_bytes /= tensor;
  return sum;
}

double range_parameters(const ModelPlan& plan, const ModelRange& range, int tensor) {
  double count = 0;
  for (const core::ParameterSpec& spec : model_parameters(plan, range)) {
    count += static_cast<double>(core::elements_of(spec.shape));
  }
  return count / tensor;
}

double range_trainable_parameters(const ModelPlan& plan, const ModelRange& range, int tensor) {
  double count = 0;
  for (const core::ParameterSpec& spec : model_parameters(plan, range)) {
    if (spec.trainable) count += static_cast<double>(core::elements_of(spec.shape));
  }
  return count / tensor;
}

double rows_into(const ModelPlan& plan, std::int64_t sublayer, const layers::BatchShape& batch) {
  return plan.receives_selection(sublayer) ? batch.logit_positions : batch.tokens;
}

double training_flops(const ModelPlan& plan, const layers::BatchShape& batch) {
  double forward = 0, skipped = 0;
  const auto add = [&](const layers::LayerCosts& costs, const LayerTraining& training) {
    const double once = costs.work.forward.flops;
    forward += once;
    skipped += training.backward ? (1 - training.weights) * once : 2 * once;
  };
  add(layers::head_costs(plan.head, batch), plan.head_training());
  for (std::int64_t i = 0; i < plan.sublayer_count(); ++i) {
    const layers::SublayerSettings& sublayer = plan.sublayers[static_cast<std::size_t>(i)];
    add(sublayer.kind->costs(sublayer, batch, false), plan.sublayer_training(i));
  }
  return 3 * forward - skipped;
}

double seconds(const layers::Work& work, const core::MachineDescription& machine) {
  const auto rate = [](double special, double general) { return special > 0 ? special : general; };
  return (work.flops - work.attention) / machine.flops + work.attention / rate(machine.attention_flops, machine.flops) +
         (work.bytes - work.moved) / machine.memory_bandwidth +
         work.moved / rate(machine.activation_bandwidth, machine.memory_bandwidth) +
         work.attention_rows * machine.attention_row + work.passes * machine.pass_overhead;
}

}  // namespace bert_hpc::model
