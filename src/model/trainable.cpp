#include "bert_hpc/model/trainable.hpp"

#include <set>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::model {
namespace {

void check(const ModelPlan& plan, const TrainableSettings& settings) {
  const std::int64_t blocks = plan.sublayers.empty() ? 0 : plan.sublayers.back().block + 1;
  if (settings.freeze_layers > blocks) {
    throw core::Error(core::ExitCode::input, "[model] freeze_layers = " + std::to_string(settings.freeze_layers) +
                                                 ", but the model has " + core::counted(blocks, "layer") +
                                                 ": write a number from 0 to " + std::to_string(blocks) + '.');
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

}  // namespace bert_hpc::model
