#include "bert_hpc/app/engine/model_loading.hpp"

#include "bert_hpc/app/engine/label_unit.hpp"
#include "bert_hpc/app/engine/model_labels.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/model/hf_weights.hpp"

namespace bert_hpc::app {
namespace {

model::LoadOptions load_options(const ModelInstance& model, bool trains) {
  model::LoadOptions options{.family = model.config.family};
  if (trains) {
    options.may_be_missing = model::head_prefixes(model.objective.head, model.config.family);
    options.replace_other_shapes = true;
  }
  return options;
}

}  // namespace

void check_pretrained(const ModelInstance& model, const config::Config& input, bool trains) {
  if (!input.model.pretrained) return;
  model::check_hf_weights(*input.model.pretrained, model.all_parameters(), load_options(model, trains));
}

std::string load_values(ModelInstance& model, const config::Config& input) {
  std::string lines;
  const comm::ProcessGroups& groups = model.groups();
  collectively(groups.world, [&] {
    if (model.place.data != 0) return;
    const auto seed = static_cast<std::uint64_t>(input.run.seed);
    if (!input.model.pretrained) {
      model::initialize_parameters(model.parameters, model.config, seed);
      return;
    }
    const std::string& folder = *input.model.pretrained;
    const model::LoadOptions options = load_options(model, model.use.trains);
    // A weight that one stage does not use belongs to another stage: only the check of the whole model finds the
    // weights that are new or unused.
    if (groups.world.rank() == 0) {
      const model::LoadReport report = model::check_hf_weights(folder, model.all_parameters(), options);
      lines = report.text();
      if (model.objective.task->has_label_names()) {
        lines += kept_classifier(folder, model.config.label_names, report.newly_initialised);
      } else if (model.use.trains) {
        lines += kept_range(folder, model.config, report.newly_initialised);
      }
    }
    const model::LoadReport report = model::load_hf_weights(folder, model.parameters, options);
    head_into_training_unit(model.label_scale, report.newly_initialised, model.parameters);
    if (!report.newly_initialised.empty()) {
      model::initialize_parameters(model.parameters, model.config, seed, report.newly_initialised);
    }
  });
  groups.data->broadcast(model.parameters.change_values(), 0);
  return lines;
}

void load_folder(ModelInstance& model, const std::string& folder) {
  collectively(model.groups().world, [&] {
    if (model.place.data != 0) return;
    model::load_hf_weights(folder, model.parameters, {.family = model.config.family});
    head_into_training_unit(model.label_scale, {}, model.parameters);
  });
  model.groups().data->broadcast(model.parameters.change_values(), 0);
}

}  // namespace bert_hpc::app
