#include "bert_hpc/app/engine/model_loading.hpp"

#include <algorithm>

#include "bert_hpc/app/engine/label_unit.hpp"
#include "bert_hpc/app/engine/low_rank.hpp"
#include "bert_hpc/app/engine/model_labels.hpp"
#include "bert_hpc/app/run/collective.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/layers/row_factors.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/ops/random_fill.hpp"

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

model::LoadOptions load_options(const ModelInstance& model, bool trains,
                                const std::optional<model::PeftAdapter>& adapter) {
  model::LoadOptions options = load_options(model, trains);
  if (adapter) {
    options.may_be_missing.insert(options.may_be_missing.end(), adapter->replaced().begin(), adapter->replaced().end());
    options.replace_other_shapes = true;
  }
  return options;
}

/// Takes the names that the adapter has out of those that no file has.
void remove_replaced(std::vector<std::string>& names, const std::optional<model::PeftAdapter>& adapter) {
  if (!adapter) return;
  std::erase_if(names, [&adapter](const std::string& name) {
    return std::find(adapter->replaced().begin(), adapter->replaced().end(), name) != adapter->replaced().end();
  });
}

/// Throws Error(input) where the pretrained model lacks parameters that the training leaves as they are.
void require_values(const std::vector<std::string>& missing, const std::vector<core::ParameterSpec>& whole_model,
                    const config::Config& input) {
  std::string names;
  for (const core::ParameterSpec& spec : whole_model) {
    if (spec.trainable || std::find(missing.begin(), missing.end(), spec.name) == missing.end()) continue;
    names += (names.empty() ? "" : ", ") + spec.name;
  }
  if (names.empty()) return;
  throw core::Error(core::ExitCode::input, *input.model.pretrained + " lacks " + core::printable(names, 300) +
                                               ", which [model] trainable = \"" + input.model.trainable +
                                               "\" does not train: use another model, or trainable = \"all\".");
}

/// Collective over the tensor groups of the first replica. Others may have their values in the same memory.
void set_magnitudes(ModelInstance& model) {
  if (model.place.data == 0) layers::set_magnitudes(model.parameters, model.tensor_group());
}

std::vector<std::string> adapter_names(const core::ParameterStore& parameters) {
  std::vector<std::string> names;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (slice.adapter) names.push_back(slice.name);
  }
  return names;
}

/// Throws Error(input) where the adapter is to be added to weights of which this rank has some columns only.
void require_mergeable(const model::PeftAdapter& adapter, const ModelInstance& model, const config::Config& input) {
  if (model.plan.low_rank || !adapter.settings().magnitudes || model.grid.tensor == 1) return;
  throw core::Error(core::ExitCode::input, *input.model.lora.adapter +
                                               " has magnitudes (DoRA), which change whole rows of weights, so that "
                                               "tensor ranks cannot merge it: set [parallel] tensor = 1.");
}

}  // namespace

void check_pretrained(const ModelInstance& model, const config::Config& input, bool trains) {
  if (!input.model.pretrained) return;
  const std::optional<model::PeftAdapter> adapter = adapter_of(input, model.config.family);
  const std::vector<core::ParameterSpec> all = model.all_parameters();
  model::LoadReport report =
      model::check_hf_weights(*input.model.pretrained, all, load_options(model, trains, adapter));
  remove_replaced(report.newly_initialised, adapter);
  if (trains) require_values(report.newly_initialised, all, input);
  if (!adapter) return;
  require_fit(*adapter, all, *input.model.lora.adapter, {});
  require_mergeable(*adapter, model, input);
}

namespace {

/// The lines for the log of what the folder of the pretrained model lacks and has. On rank 0: a weight that one stage
/// does not use belongs to another stage, so only the check of the whole model finds the weights that are new or
/// unused.
std::string report_folder(const ModelInstance& model, const config::Config& input, const model::LoadOptions& options,
                          const std::optional<model::PeftAdapter>& adapter) {
  const std::string& folder = *input.model.pretrained;
  const std::vector<core::ParameterSpec> all = model.all_parameters();
  model::LoadReport report = model::check_hf_weights(folder, all, options);
  if (adapter) {
    adapter->check(all);
    require_mergeable(*adapter, model, input);
  }
  remove_replaced(report.newly_initialised, adapter);
  if (model.use.trains) require_values(report.newly_initialised, all, input);
  std::string lines = report.text();
  const std::vector<std::string>& fresh = report.newly_initialised;
  const bool keeps = std::find(fresh.begin(), fresh.end(), model.plan.head.classifier + ".weight") == fresh.end();
  if (adapter && !adapter->replaced().empty()) {
    lines += "the head is that of " + core::printable(*input.model.lora.adapter, 200) + '\n';
  } else if (keeps && model.objective.task->has_label_names()) {
    lines += kept_classifier(folder, model.config.label_names);
  } else if (keeps && model.use.trains) {
    lines += kept_range(folder, model.config);
  }
  return lines;
}

/// Initializes what no folder has: `fresh`, which the folder of the pretrained model lacks, and new adapters.
void initialize_missing(ModelInstance& model, const config::Config& input,
                        const std::optional<model::PeftAdapter>& adapter, const std::vector<std::string>& fresh) {
  std::vector<std::string> random = fresh;
  if (!adapter) {
    const std::vector<std::string> added = adapter_names(model.parameters);
    random.insert(random.end(), added.begin(), added.end());
  }
  const auto seed = static_cast<std::uint64_t>(input.run.seed);
  if (!random.empty()) model::initialize_parameters(model.parameters, model.config, seed, random);
}

void load_pretrained(ModelInstance& model, const config::Config& input, std::string& lines) {
  const comm::Communicator& world = model.groups().world;
  const bool loads = model.place.data == 0;
  std::optional<model::PeftAdapter> adapter;
  std::vector<std::string> fresh;
  collectively(model.groups().world, [&] {
    if (!loads) return;
    if (input.model.lora.adapter) adapter.emplace(*input.model.lora.adapter, model.config.family);
    const model::LoadOptions options = load_options(model, model.use.trains, adapter);
    if (world.rank() == 0) lines = report_folder(model, input, options, adapter);
    fresh = model::load_hf_weights(*input.model.pretrained, model.parameters, options).newly_initialised;
    initialize_missing(model, input, adapter, fresh);
  });
  set_magnitudes(model);
  const std::uint64_t base = input.model.lora.adapter ? base_hash(model) : 0;
  collectively(model.groups().world, [&] {
    if (!loads) return;
    if (adapter && world.rank() == 0) require_fit(*adapter, model.all_parameters(), *input.model.lora.adapter, base);
    if (adapter) adapter->load(model.parameters);
    remove_replaced(fresh, adapter);
    head_into_training_unit(model.label_scale, model.plan.head.classifier, fresh, model.parameters);
  });
}

}  // namespace

std::string load_values(ModelInstance& model, const config::Config& input) {
  std::string lines;
  if (input.model.pretrained) {
    load_pretrained(model, input, lines);
  } else if (model.place.data == 0) {
    model::initialize_parameters(model.parameters, model.config, static_cast<std::uint64_t>(input.run.seed));
    set_magnitudes(model);
  }
  model.groups().data->broadcast(model.parameters.change_values(), 0);
  return lines;
}

void load_folder(ModelInstance& model, const std::string& folder) {
  collectively(model.groups().world, [&] {
    if (model.place.data != 0) return;
    model::load_hf_weights(folder, model.parameters, {.family = model.config.family});
    head_into_training_unit(model.label_scale, model.plan.head.classifier, {}, model.parameters);
    // The folder's weights have what adapters add.
    for (const core::ParameterSlice& slice : model.parameters.slices()) {
      if (!slice.adapter) continue;
      const core::Tensor<float> value = model.parameters.change_value(model.parameters.find(slice.name));
      ops::fill({value.data, static_cast<std::size_t>(slice.size)}, 0.0f);
    }
  });
  set_magnitudes(model);
  model.groups().data->broadcast(model.parameters.change_values(), 0);
}

}  // namespace bert_hpc::app
