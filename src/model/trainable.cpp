#include "bert_hpc/model/trainable.hpp"

#include <set>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/model_parameters.hpp"

namespace bert_hpc::model {
namespace {

void check(const ModelPlan& plan, const TrainableSettings& settings) {
  const std::int64_t blocks = plan.sublayers.empty() ? 0 : plan.sublayers.back().block + 1;
  if (settings.freeze_layers > blocks) {
    throw core::Error(core::ExitCode::input, "[model] freeze_layers = " + std::to_string(settings.freeze_layers) +
                                                 ", but the model has " + core::counted(blocks, "layer") +
                                                 ": write a number from 0 to " + std::to_string(blocks) + '.');
  }
  if (settings.freeze_layers > 0 && settings.freeze_layers < blocks && plan.shares_blocks) {
    throw core::Error(core::ExitCode::input, "[model] freeze_layers = " + std::to_string(settings.freeze_layers) +
                                                 ", but blocks of this model have the same parameters: write 0, or " +
                                                 std::to_string(blocks) + " for all of them.");
  }
}

/// Names of biases end in ".bias", or in one like ".bias_ih_l0" of a recurrent layer.
bool is_bias(const std::string& name) {
  return name.compare(name.rfind('.') + 1, 4, "bias") == 0;
}

/// Frozen embeddings that are the decoder too must know something.
void check_decoder(const ModelPlan& plan, const TrainableSettings& settings, const std::set<std::string>& frozen) {
  if (!settings.from_scratch || !plan.head.ties_word_embeddings || !frozen.contains(plan.head.word_embeddings)) return;
  throw core::Error(
      core::ExitCode::input,
      "[model] trainable and freeze_layers freeze the word embeddings, which are the decoder of this task "
      "too, and without model.pretrained their values are random: set model.pretrained, or remove the two "
      "keys.");
}

/// Appends what of a layer with these parameters takes part, where a layer below does or not.
void add_training(const std::vector<core::ParameterSpec>& specs, const Trains& trains,
                  std::vector<LayerTraining>& training) {
  LayerTraining layer{.backward = !training.empty() && training.back().backward};
  double elements = 0, trained = 0;
  for (const core::ParameterSpec& spec : specs) {
    const bool changes = trains(spec.copy_of.empty() ? spec.name : spec.copy_of);
    layer.backward = layer.backward || changes;
    if (spec.shape.size() != 2) continue;
    const auto size = static_cast<double>(core::elements_of(spec.shape));
    elements += size;
    trained += changes ? size : 0;
  }
  if (elements > 0) layer.weights = trained / elements;
  training.push_back(layer);
}

}  // namespace

Trains trainable_parameters(const ModelPlan& plan, const TrainableSettings& settings) {
  check(plan, settings);
  std::set<std::string> frozen;
  const auto add = [&](const std::vector<core::ParameterSpec>& specs, bool below) {
    for (const core::ParameterSpec& spec : specs) {
      const bool keeps = settings.parameters == "all" || (settings.parameters == "bitfit" && is_bias(spec.name)) ||
                         (settings.parameters == "lora" && spec.adapter);
      if (below || !keeps) frozen.insert(spec.name);
    }
  };
  std::vector<core::ParameterSpec> embeddings;
  plan.input->declare(embeddings, {});
  add(embeddings, settings.freeze_layers > 0);
  for (const layers::SublayerSettings& sublayer : plan.sublayers) {
    std::vector<core::ParameterSpec> specs;
    layers::declare_sublayer(sublayer, specs);
    add(specs, sublayer.block < settings.freeze_layers);
  }
  if (settings.parameters == "lora" && (!settings.head || plan.head.kind.predicts_tokens)) {
    // A head that predicts tokens comes with a pretrained model, and PEFT has no name for its parts.
    std::vector<core::ParameterSpec> head;
    layers::declare_head(plan.head, head);
    add(head, true);
  }
  check_decoder(plan, settings, frozen);
  if (frozen.empty()) return {};
  return [frozen = std::move(frozen)](const std::string& name) { return !frozen.contains(name); };
}

void set_trains(ModelPlan& plan, Trains trains) {
  plan.trains = std::move(trains);
  plan.training.clear();
  if (!plan.trains) return;
  std::vector<core::ParameterSpec> specs;
  plan.input->declare(specs, {});
  add_training(specs, plan.trains, plan.training);
  for (const layers::SublayerSettings& sublayer : plan.sublayers) {
    specs.clear();
    layers::declare_sublayer(sublayer, specs);
    add_training(specs, plan.trains, plan.training);
  }
  specs.clear();
  ModelRange separate = whole(plan);
  separate.separate_decoder = true;  // a tied decoder is a product of the head
  layers::declare_head(head_of(plan, separate), specs);
  add_training(specs, plan.trains, plan.training);
}

}  // namespace bert_hpc::model
