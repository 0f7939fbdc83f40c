#include "app/plan/model_choices.hpp"

#include <cmath>

#include "app/run/collective.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

std::string own_recompute(const config::Model& model) {
  if (!model.recompute_blocks.empty()) return core::format_number(model.recompute_blocks.front());
  return model.recompute.empty() ? "none" : model.recompute;
}

std::string own_trainable(const config::Model& model) {
  std::string text = '"' + model.trainable + '"';
  if (model.freeze_layers > 0) text += " above " + core::counted(model.freeze_layers, "frozen layer");
  return text;
}

}  // namespace

std::vector<ModelChoice> recompute_choices(const config::Config& input) {
  const std::string own = own_recompute(input.model);
  const bool alone = input.precision.compute == "fp8" || input.parallel.pipeline_schedule == "zb_h1";
  std::vector<ModelChoice> choices;
  bool listed = false;
  for (const char* value : {"none", "attention", "blocks"}) {
    if (alone && own != value) continue;
    listed = listed || own == value;
    choices.push_back({'"' + std::string(value) + '"', input});
    choices.back().input.model.recompute = value;
    choices.back().input.model.recompute_blocks.clear();
  }
  if (!listed) choices.push_back({own, input});
  return choices;
}

std::vector<ModelChoice> trainable_choices(const config::Config& input) {
  if (input.model.trainable == "all" && input.model.freeze_layers == 0) return {};
  std::vector<ModelChoice> choices = {{"\"all\"", input}, {own_trainable(input.model), input}};
  config::Model& all = choices.front().input.model;
  all.trainable = "all";
  all.freeze_layers = 0;
  all.lora = {};
  return choices;
}

std::string choices_text(const std::vector<ModelChoice>& choices, const std::vector<ChoiceCosts>& costs,
                         bool machine_is_known) {
  std::string text;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const double share = costs[i].seconds / costs.front().seconds;
    const std::string time = machine_is_known ? step_duration(costs[i].seconds)
                                              : std::to_string(std::llround(100 * share)) + "% of the operations";
    text += (i == 0 ? "" : "; ") + choices[i].value + ' ' + core::format_bytes(costs[i].bytes) + ", " + time;
  }
  return text;
}

void report_choices(const RunContext& context, const SimulatedRun& run,
                    const std::function<std::int64_t(const config::Config&)>& bytes_of) {
  if (!context.invocation.validate) return;
  std::string text;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    const auto line = [&](const char* name, const std::vector<ModelChoice>& choices) {
      if (choices.size() < 2) return;
      std::vector<ChoiceCosts> costs;
      for (const ModelChoice& choice : choices) {
        costs.push_back({bytes_of(choice.input), simulated_step_seconds(context, run, choice.input)});
      }
      text += "\n  " + std::string(name) + choices_text(choices, costs, context.input.run.machine.has_value());
    };
    line("recompute   ", recompute_choices(context.input));
    line("trainable   ", trainable_choices(context.input));
  });
  if (!text.empty()) context.log.info("choices of [model], memory of a rank and time of a step" + text);
}

}  // namespace bert_hpc::app
