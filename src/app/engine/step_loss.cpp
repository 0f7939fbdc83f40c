#include "app/engine/step_loss.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::app {

layers::StepLossFunction step_loss_of(const config::Config& input) {
  if (!input.trains()) return nullptr;
  for (const objectives::NamedStepLoss& named : objectives::of(input).step_losses) {
    if (input.task.is(tasks::loss_key, named.name)) return named.loss;
  }
  return nullptr;
}

train::ScheduleKind schedule_of(const config::Config& input) {
  const std::string& name = input.parallel.pipeline_schedule;
  const train::ScheduleKind kind = train::schedule_kind(name).value();
  if (step_loss_of(input) == nullptr) return kind;
  if (kind == train::ScheduleKind::interleaved || kind == train::ScheduleKind::zb_h1) {
    throw core::Error(core::ExitCode::input,
                      "[parallel] pipeline_schedule = \"" + name +
                          "\" begins backward passes before a step's last "
                          "forward pass, but [task] loss = \"" +
                          *input.task.words.at(tasks::loss_key) +
                          "\" needs all of its outputs first: set pipeline_schedule = \"gpipe\".");
  }
  return train::ScheduleKind::forwards_first;
}

std::optional<train::StepLossSettings> step_loss_settings(const config::Config& input, const ModelInstance& model,
                                                          std::int64_t rows) {
  const layers::StepLossFunction loss = step_loss_of(input);
  if (loss == nullptr || !model.stages.back().range().head) return std::nullopt;
  return train::StepLossSettings{.loss = loss, .rows = rows, .outputs = model.outputs(), .columns = 1};
}

}  // namespace bert_hpc::app
