#include "app/checkpoint/previous_phase.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>
#include <vector>

#include "app/checkpoint/checkpoint_contents.hpp"
#include "app/checkpoint/checkpoint_damage.hpp"
#include "app/checkpoint/snapshot.hpp"
#include "app/engine/training_settings.hpp"
#include "app/run/collective.hpp"
#include "app/run/run_directory.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/tensor_piece.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::app {
namespace {

namespace fs = std::filesystem;

/// The checkpoint to begin with, as rank 0 sends it.
struct Source {
  std::string folder;
  std::int64_t step = 0;
  bool of_run = false;  ///< a run's directory is named, not a checkpoint's folder

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.folder, self.step, self.of_run);
  }
};

[[noreturn]] void reject(const std::string& named, const std::string& why) {
  throw core::Error(core::ExitCode::input,
                    "[run] previous_phase = \"" + core::printable(named) + "\" cannot be continued: " + why);
}

const char* const at_end = "checkpoint.at_end = true";

Source find_source(const config::Run& run) {
  const std::string& named = *run.previous_phase;
  const fs::path given = named_checkpoint(named);
  const auto step = io::step_of_checkpoint(given.filename().string());
  std::error_code problem;
  if (step && fs::is_directory(given, problem)) {
    const fs::path folder = given.parent_path();
    return {.folder = folder.empty() ? "." : folder.string(), .step = *step, .of_run = false};
  }
  if (fs::equivalent(given, run.directory, problem)) {
    reject(named, "it is run.directory. A phase has a directory of its own.");
  }
  using State = RunDirectory::State;
  const RunDirectory found = inspect_run_directory(given.string());
  if (found.state == State::fresh || found.state == State::foreign) {
    reject(named,
           "there is no run of bert_hpc. Name the directory of a finished run, or the folder of one of its "
           "checkpoints, as in \"phase1/checkpoints/step-00000100\".");
  }
  if (found.state == State::unfinished) {
    reject(named, "that run is not finished (its status is \"" + core::printable(found.status, 20) +
                      "\"). Resume it until it ends, or name the folder of one of its checkpoints.");
  }
  const io::CheckpointFolder folder((given / "checkpoints").string());
  const std::vector<std::int64_t> steps = folder.steps();
  if (steps.empty()) reject(named, std::string("that run left no checkpoint. Train it with ") + at_end + '.');
  return {.folder = folder.path(), .step = steps.back(), .of_run = true};
}

std::string shape_text(const core::WholeTensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.shape) text += (text.empty() ? "" : " × ") + std::to_string(size);
  return text + (tensor.trainable ? "" : ", not trained");
}

/// The first parameter that only one of the runs has, or that differs; "" if there is none.
std::string parameter_difference(const std::vector<core::WholeTensor>& there,
                                 const std::vector<core::WholeTensor>& here) {
  const auto same_name = [](const std::vector<core::WholeTensor>& all, const std::string& name) {
    return std::find_if(all.begin(), all.end(), [&](const core::WholeTensor& one) { return one.name == name; });
  };
  for (const core::WholeTensor& tensor : here) {
    const auto other = same_name(there, tensor.name);
    if (other == there.end()) return "parameter " + tensor.name + ": this run's model alone has it";
    if (*other == tensor) continue;
    return "parameter " + tensor.name + ": " + shape_text(*other) + " there, " + shape_text(tensor) + " here";
  }
  for (const core::WholeTensor& tensor : there) {
    if (same_name(here, tensor.name) == here.end()) {
      return "parameter " + tensor.name + ": the earlier run's model alone has it";
    }
  }
  return there == here ? "" : "the order of the parameters";
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string vocabulary_difference(const std::string& there, const std::string& here) {
  if (first_line(there) == first_line(here)) return {};
  return "the training data: " + first_line(there) + " there, " + first_line(here) + " here";
}

/// Throws AgreedError(input) listing what differs and must not.
void require_fitting(const io::CheckpointManifest& manifest, const RunContext& context, const ModelInstance& model,
                     const DataSets& sets, const std::string& path) {
  std::vector<std::string> found;
  const auto add = [&](const std::string& difference) {
    if (!difference.empty()) found.push_back(difference);
  };
  add(parameter_difference(manifest.tensors, whole_tensors(model)));
  if (manifest.quantities != quantities_of(optimizer_states(context.input))) {
    found.push_back("the optimizer's states: those there are not of optimizer.name = \"" +
                    context.input.optimizer.name + '"');
  }
  add(objectives::unit_difference(training_state(manifest).label_unit,
                                  objectives::unit_text(model.output_rules.scales)));
  for (const auto& [name, text] : checkpoint_texts(context, model, sets)) {
    if (name == "data_train") add(vocabulary_difference(manifest.text(name), text));
  }
  if (found.empty()) return;
  std::string text = "the run cannot begin with " + path + ", because these differ:";
  for (const std::string& difference : found) text += "\n     " + difference;
  throw AgreedError(core::ExitCode::input,
                    text +
                        "\n  Give [model], [optimizer] name and the tokenizer of the earlier run, or name another run "
                        "in [run] previous_phase.");
}

/// The state before the first step whose counts start at 0.
TrainingState restarted(const TrainingState& before) {
  TrainingState state;
  state.earlier_updates = before.earlier_updates + before.done - before.skipped.total;
  state.loss_scale = before.loss_scale;
  state.fp8_magnitudes = before.fp8_magnitudes;
  state.label_unit = before.label_unit;
  return state;
}

}  // namespace

std::optional<Resume> begin_phase(const RunContext& context, const ModelInstance& model, DataSets& sets,
                                  std::int64_t total_steps) {
  const config::Run& run = context.input.run;
  if (!run.previous_phase) return std::nullopt;
  Source source;
  collectively(context.world, [&] {
    if (context.world.rank() == 0) source = find_source(run);
  });
  source = comm::broadcast_object(context.world, source, 0);
  const io::CheckpointFolder folder(source.folder);
  const std::string link = link_in(context.world, folder, source.step), path = folder.path_of(source.step);
  if (!link.empty()) throw AgreedError(core::ExitCode::files, link);
  io::CheckpointManifest manifest;
  const std::string why = damage(context.world, folder, source.step, manifest, sets.hdf5);
  if (!why.empty()) throw AgreedError(core::ExitCode::files, "the checkpoint " + path + " cannot be used. " + why);
  require_fitting(manifest, context, model, sets, path);

  TrainingState state = training_state(manifest);
  if (source.of_run && !state.ended) {
    throw AgreedError(core::ExitCode::input,
                      "[run] previous_phase = \"" + core::printable(*run.previous_phase) +
                          "\": the last checkpoint of that run, of step " + core::with_commas(source.step) +
                          ", is not of its end. Train it with " + at_end + ", or name the folder " + path + '.');
  }
  const bool restarts = run.phase_steps == "restart";
  if (!restarts && state.done >= total_steps) {
    throw AgreedError(core::ExitCode::input, "[schedule] ends at step " + core::with_commas(total_steps) +
                                                 ", but [run] phase_steps = \"continue\" begins behind step " +
                                                 core::with_commas(state.done) +
                                                 " of the phase before: lengthen [schedule], which counts both, or set "
                                                 "phase_steps = \"restart\".");
  }
  if (restarts) state = restarted(state);
  state.evaluation_due = state.ended = false;
  state.best = {};
  return Resume{.folder = folder,
                .manifest = std::move(manifest),
                .state = std::move(state),
                .same_run = false,
                .next_phase = true,
                .changes = {},
                .warnings = {},
                .best_elsewhere = {}};
}

std::string phase_text(const Resume& phase, const config::Run& run, std::int64_t total_steps) {
  const TrainingState& state = phase.state;
  const std::int64_t updates = state.earlier_updates + state.done - state.skipped.total;
  return "next phase after step " + core::with_commas(phase.manifest.step) + " of another run (" + phase.path() +
         "): parameters and optimizer states of " + core::counted(updates, "update") + " are read; " +
         (run.phase_steps == "restart" ? "steps, samples, tokens, the schedule and the order of the data start at 0"
                                       : "steps, the schedule and the order of the data continue from there to step " +
                                             core::with_commas(total_steps)) +
         "; the best model is this run's own";
}

}  // namespace bert_hpc::app
