#include "app/checkpoint/resume.hpp"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "app/checkpoint/checkpoint_contents.hpp"
#include "app/checkpoint/checkpoint_damage.hpp"
#include "app/checkpoint/checkpoint_loading.hpp"
#include "app/checkpoint/snapshot.hpp"
#include "app/engine/training_settings.hpp"
#include "app/run/collective.hpp"
#include "app/run/run_directory.hpp"
#include "bert_hpc/comm/objects.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/core/version.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/ops/attention_dropout.hpp"

namespace bert_hpc::app {
namespace {

namespace fs = std::filesystem;

/// One line a shard: name, size and checksum.
std::string data_text(const data::ShardReader* reader) {
  if (reader == nullptr) return {};
  std::string text = "vocabulary " + reader->info().vocabulary_hash + '\n';
  for (std::size_t f = 0; f < reader->files().size(); ++f) {
    text += fs::path(reader->files()[f]).filename().string() + ' ' + reader->seals()[f] + '\n';
  }
  return text;
}

/// What keeps the run from going on with this checkpoint; empty if nothing does.
std::vector<std::string> obstacles(std::vector<std::string> found, const ModelInstance& model,
                                   const io::CheckpointManifest& manifest,
                                   const std::vector<io::QuantityKind>& quantities, std::int64_t total_steps) {
  if (found.empty() && manifest.quantities != quantities) found.emplace_back("the optimizer's states");
  if (found.empty() && manifest.tensors != whole_tensors(model)) found.emplace_back("the model's parameters");
  const std::string unit = objectives::unit_difference(training_state(manifest).label_unit,
                                                       objectives::unit_text(model.output_rules.scales));
  if (found.empty() && !unit.empty()) found.push_back(unit);
  if (found.empty() && manifest.step > total_steps) {
    found.push_back("the checkpoint is of step " + core::with_commas(manifest.step) + ", but [schedule] ends at step " +
                    core::with_commas(total_steps));
  }
  return found;
}

/// Checkpoints to try: the folder and the steps there, the first choice first.
struct Candidates {
  io::CheckpointFolder folder;
  std::vector<std::int64_t> steps;
};

Candidates candidates(const RunContext& context) {
  const io::CheckpointFolder own = checkpoint_folder(context.input);
  const std::string& resume = context.input.run.resume;
  const Beginning beginning = beginning_of(context);
  if (resume == "never" || (resume == "auto" && beginning.overwrite)) return {io::CheckpointFolder("-"), {}};
  if (!context.invocation.validate) own.tidy();
  if (beginning.own_first) {
    std::vector<std::int64_t> steps = own.steps();
    std::reverse(steps.begin(), steps.end());
    if (resume == "auto" || !steps.empty()) return {own, std::move(steps)};
  }
  const fs::path given = named_checkpoint(resume);
  const auto step = io::step_of_checkpoint(given.filename().string());
  if (!step || !fs::is_directory(given)) {
    throw core::Error(core::ExitCode::input, "[run] resume = \"" + core::printable(resume) +
                                                 "\" is neither \"auto\" nor \"never\" nor the folder of a checkpoint, "
                                                 "as in \"run/checkpoints/step-00000100\".");
  }
  const fs::path folder = given.parent_path();
  return {io::CheckpointFolder(folder.empty() ? "." : folder.string()), {*step}};
}

/// The checkpoints that all ranks try, and whether they are in this run's directory.
struct Found {
  io::CheckpointFolder folder;
  bool own = false;
  std::vector<std::int64_t> steps{};
};

/// The same as rank 0 sends it.
struct Choice {
  std::string folder;
  bool own = false;
  std::vector<std::int64_t> steps{};

  template <class Self>
  static auto fields(Self& self) {
    return std::tie(self.folder, self.own, self.steps);
  }
};

/// Collective. Rank 0 looks for all: what it sees is what they try.
Found find_checkpoints(const RunContext& context) {
  Choice choice;
  collectively(context.world, [&] {
    if (context.world.rank() != 0) return;
    const Candidates found = candidates(context);
    std::error_code problem;
    choice.own = fs::equivalent(found.folder.path(), checkpoint_folder(context.input).path(), problem);
    if (choice.own && beginning_of(context).overwrite) {
      throw core::Error(core::ExitCode::input,
                        "--overwrite would remove the checkpoint that [run] resume names: remove one of the two.");
    }
    choice.folder = found.folder.path();
    choice.steps = found.steps;
  });
  choice = comm::broadcast_object(context.world, choice, 0);
  return {io::CheckpointFolder(choice.folder), choice.own, choice.steps};
}

/// Throws AgreedError(input) if the checkpoint, which is whole, does not fit data, model or input.
Resume resume_from(const Found& found, io::CheckpointManifest manifest, const RunContext& context,
                   const ModelInstance& model, const DataSets& sets, std::int64_t total_steps) {
  CheckpointDifferences differences = checkpoint_differences(manifest.texts, checkpoint_texts(context, model, sets),
                                                             context.resolved, context.input.run.reproducible);
  const auto incompatibilities = obstacles(std::move(differences.incompatibilities), model, manifest,
                                           quantities_of(optimizer_states(context.input)), total_steps);
  if (!incompatibilities.empty()) {
    std::string text = "the run cannot resume from " + found.folder.path_of(manifest.step) + ", because these differ:";
    for (const std::string& difference : incompatibilities) text += "\n     " + difference;
    throw AgreedError(core::ExitCode::input, text +
                                                 "\n  Restore the earlier values, set run.directory to another one, or "
                                                 "start with --overwrite to replace the run.");
  }
  Resume resume{.folder = found.folder,
                .manifest = std::move(manifest),
                .state = {},
                .same_run = found.own,
                .next_phase = false,
                .changes = std::move(differences.changes),
                .warnings = std::move(differences.warnings),
                .best_elsewhere = {}};
  resume.state = training_state(resume.manifest);
  if (!found.own) {
    resume.best_elsewhere = resume.state.best.checkpoint();
    resume.state.best = {};
  }
  if (resume.manifest.text("best_metric") != context.input.evaluation.best.value_or("")) resume.state.best = {};
  return resume;
}

}  // namespace

fs::path named_checkpoint(const std::string& resume) {
  const fs::path given = fs::path(resume + '/').parent_path();
  std::error_code problem;
  const fs::path real = fs::is_symlink(given, problem) ? fs::canonical(given, problem) : given;
  return problem ? given : real;
}

CheckpointTexts checkpoint_texts(const RunContext& context, const ModelInstance& model, const DataSets& sets) {
  const config::Config& input = context.input;
  return {{"version", std::string(core::version()) + " " + std::string(core::revision())},
          {"input", context.resolved.text},
          {"layout", comm::describe(context.grid) + ", zero = " + std::to_string(input.parallel.zero)},
          {"dropout", ops::dropout_schema},
          {"model", model::hf_config_text(model.config, model.objective.head)},
          {"data_train", data_text(sets.train.get())},
          {"data_validation", data_text(sets.validation.get())},
          {"data_test", data_text(sets.test.get())},
          {"best_metric", input.evaluation.best.value_or("")}};
}

std::optional<Resume> choose_checkpoint(const RunContext& context, const ModelInstance& model, DataSets& sets,
                                        std::int64_t total_steps) {
  comm::Communicator& world = context.world;
  const Found found = find_checkpoints(context);
  std::string first_damage;
  for (const std::int64_t step : found.steps) {
    const std::string path = found.folder.path_of(step);
    // Nothing is damaged: an older checkpoint is not what is wanted.
    const std::string link = link_in(world, found.folder, step);
    if (!link.empty()) throw AgreedError(core::ExitCode::files, link);
    io::CheckpointManifest manifest;
    const std::string why = damage(world, found.folder, step, manifest, sets.hdf5);
    if (why.empty()) return resume_from(found, std::move(manifest), context, model, sets, total_steps);
    context.log.warning("the checkpoint " + path + " is skipped. " + why);
    if (first_damage.empty()) first_damage = why;
  }
  if (!first_damage.empty()) {
    throw AgreedError(core::ExitCode::files,
                      "none of the checkpoints in " + found.folder.path() + " can be used: " + first_damage +
                          "\n  Start with --overwrite to restart from the beginning, or set run.directory to "
                          "another one.");
  }
  return std::nullopt;
}

bool load_best(const RunContext& context, const Resume& resume, ModelInstance& model, std::mutex& hdf5) {
  io::CheckpointManifest manifest;
  const std::string why = damage(context.world, resume.folder, resume.state.best.step, manifest, hdf5);
  if (why.empty() && manifest.tensors == resume.manifest.tensors) {
    load_parameters(resume.folder, manifest, model, hdf5);
    return true;
  }
  context.log.warning("the best model so far, of step " + std::to_string(resume.state.best.step) +
                      ", cannot be read. " + why);
  return false;
}

}  // namespace bert_hpc::app
