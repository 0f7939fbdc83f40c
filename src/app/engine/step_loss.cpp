#include "app/engine/step_loss.hpp"

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/objectives/objective.hpp"

namespace bert_hpc::app {

layers::StepLossKind step_loss_of(const config::Config& input) {
  if (!input.trains()) return {};
  for (const objectives::NamedStepLoss& named : objectives::of(input).step_losses) {
    if (input.task.is(tasks::loss_key, named.name)) return named.make(input.task);
  }
  return {};
}

train::ScheduleKind schedule_of(const config::Config& input) {
  const std::string& name = input.parallel.pipeline_schedule;
  const train::ScheduleKind kind = train::schedule_kind(name).value();
  const layers::StepLossKind loss = step_loss_of(input);
  if (!loss || loss.looks_ahead) return kind;
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
  layers::StepLossKind loss = step_loss_of(input);
  if (!loss || !model.stages.back().range().head) return std::nullopt;
  return train::StepLossSettings{.loss = std::move(loss), .rows = rows, .outputs = model.outputs()};
}

}  // namespace bert_hpc::app
