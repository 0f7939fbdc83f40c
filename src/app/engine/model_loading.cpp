#include "app/engine/model_loading.hpp"

#include <algorithm>

#include "app/engine/low_rank.hpp"
#include "app/engine/model_labels.hpp"
#include "app/run/collective.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/relevant_label.hpp"
#include "bert_hpc/layers/row_factors.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/model/hf_weights.hpp"
#include "bert_hpc/ops/random_fill.hpp"

namespace bert_hpc::app {
namespace {

bool has_names(const ModelInstance& model) {
  return model.objective.task->names_outputs(model.config.label_names.size());
}

/// Use of the pretrained head in this run.
ClassifierUse head_use(const ModelInstance& model, const config::Config& input) {
  const layers::HeadKind& head = model.objective.head;
  if (head.predicts_tokens || head.outputs_embeddings) return {};
  const model::ModelConfig there = model::read_hf_config(folder_of_labels(input.model));
  const bool named = has_names(model);
  return classifier_use(input, there.label_names, named ? model.config.label_names : there.label_names);
}

std::vector<std::string> classifier_names(const ModelInstance& model) {
  return {model.plan.head.classifier + ".weight", model.plan.head.classifier + ".bias"};
}

/// Removes from the adapter a head that this run does not keep.
void leave_head(const ModelInstance& model, const ClassifierUse& use, std::optional<model::PeftAdapter>& adapter) {
  if (adapter && use.is_new) adapter->leave(classifier_names(model));
}

model::LoadOptions load_options(const ModelInstance& model, bool trains) {
  model::LoadOptions options{.family = model.config.family, .weights = model.plan.weights};
  if (trains) {
    options.may_be_missing = model::head_prefixes(model.objective.head, model.config.family);
    options.replace_other_shapes = true;
  }
  return options;
}

model::LoadOptions load_options(const ModelInstance& model, const config::Config& input, const ClassifierUse& use,
                                const std::optional<model::PeftAdapter>& adapter) {
  model::LoadOptions options = load_options(model, model.trains);
  if (use.is_new) options.not_wanted = classifier_names(model);
  if (model.objective.task->ranks_candidates()) {
    options.differences = classifier_names(model);
    options.minuend = data::relevant_label(model::read_hf_config(*input.model.pretrained).label_names).value_or(1);
  }
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

/// Names of `missing` that the training leaves as they are, with commas.
std::string untrained(const std::vector<std::string>& missing, const std::vector<core::ParameterSpec>& whole_model) {
  std::string names;
  for (const core::ParameterSpec& spec : whole_model) {
    if (spec.trainable || std::find(missing.begin(), missing.end(), spec.name) == missing.end()) continue;
    names += (names.empty() ? "" : ", ") + spec.name;
  }
  return core::printable(names, 300);
}

/// Whether adapters are trained beside a head that stays as it is loaded or initialised.
bool leaves_head(const ModelInstance& model, const config::Config& input) {
  return model.plan.low_rank && !input.model.lora.train_head.value_or(true) && !model.objective.head.predicts_tokens;
}

/// Throws Error(input) if the pretrained model lacks parameters that the training leaves as they are.
void require_values(const std::string& names, const config::Config& input) {
  if (names.empty()) return;
  throw core::Error(core::ExitCode::input, *input.model.pretrained + " lacks " + names +
                                               ", which [model] trainable = \"" + input.model.trainable +
                                               "\" does not train: use another model, or trainable = \"all\".");
}

/// Collective over the tensor groups of the first replica. Others may have their values in the same memory.
void set_magnitudes(ModelInstance& model) {
  if (model.coordinates.data == 0) layers::set_magnitudes(model.parameters, model.tensor_group());
}

std::vector<std::string> adapter_names(const core::ParameterStore& parameters) {
  std::vector<std::string> names;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (slice.adapter) names.push_back(slice.name);
  }
  return names;
}

/// Throws Error(input) if the adapter is to be added to weights of which this rank has some columns only.
void require_mergeable(const model::PeftAdapter& adapter, const ModelInstance& model, const config::Config& input) {
  if (model.plan.low_rank || !adapter.settings().magnitudes || model.grid.tensor == 1) return;
  throw core::Error(core::ExitCode::input, *input.model.lora.adapter +
                                               " has magnitudes (DoRA), which change whole rows of weights, so that "
                                               "tensor ranks cannot merge it: set [parallel] tensor = 1.");
}

}  // namespace

namespace {

bool is_among(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Throws Error(input): the input keeps a head that is not there, or of another shape.
[[noreturn]] void refuse_to_keep(const model::LoadReport& report, const std::string& folder) {
  throw core::Error(
      core::ExitCode::input,
      "[model] head = \"keep\", but " + folder +
          (report.replaced.empty() ? " has no output layer for this task"
                                   : " has another one: " + core::printable(report.replaced.front(), 300)) +
          ". Remove the key for a new one.");
}

/// Note on a reranker with two outputs.
std::string difference_note(const std::vector<std::string>& names) {
  const std::optional<std::size_t> relevant = data::relevant_label(names);
  const auto output = [&names](std::size_t i) {
    return std::string(i == 0 ? "the first" : "the second") +
           (names.size() == 2 ? " (" + core::printable(names[i], 60) + ')' : "");
  };
  const std::size_t minuend = relevant.value_or(1);
  return "the pretrained classifier has two outputs: a score is " + output(minuend) + " minus " + output(1 - minuend) +
         (relevant ? "" : ", as is usual; the names in config.json's id2label do not say which means \"relevant\"");
}

/// Lines for the log: what the folder of the pretrained model lacks and has. A weight that one stage does not use
/// belongs to another stage, so only the check of the whole model finds the weights that are new or unused.
LoadNotes report_folder(const ModelInstance& model, const config::Config& input, const ClassifierUse& use,
                        const std::optional<model::PeftAdapter>& adapter) {
  const std::string& folder = *input.model.pretrained;
  const std::vector<core::ParameterSpec> all = model.all_parameters();
  model::LoadReport report = model::check_hf_weights(folder, all, load_options(model, input, use, adapter));
  if (adapter) {
    require_fit(*adapter, model, *input.model.lora.adapter, {});
    require_mergeable(*adapter, model, input);
  }
  remove_replaced(report.newly_initialised, adapter);
  LoadNotes notes;
  const std::string random = model.trains ? untrained(report.newly_initialised, all) : "";
  if (leaves_head(model, input)) {  // what may be missing is the head
    notes.random_head = random;
  } else {
    require_values(random, input);
  }
  notes.lines = report.text();
  const std::string weight = classifier_names(model).front();
  const bool keeps = !is_among(report.newly_initialised, weight);
  if (!keeps && input.model.head == "keep") refuse_to_keep(report, folder);
  if (adapter && !adapter->replaced().empty()) {
    notes.lines += "the head is that of " + core::printable(*input.model.lora.adapter, 200) + '\n';
  }
  if (keeps || is_among(report.left, weight)) {
    notes.head = report.differences.empty() ? use.note : difference_note(model::read_hf_config(folder).label_names);
    notes.is_doubtful = use.is_doubtful;
    if (notes.head.empty() && has_names(model)) {
      notes.head =
          unnamed_note(model::read_hf_config(folder_of_labels(input.model)).label_names, model.config.label_names);
      notes.is_doubtful = !notes.head.empty();
    }
  } else if (!report.replaced.empty() && has_names(model)) {
    notes.head = replaced_classifier(input, model::read_hf_config(folder).label_names, model.config.label_names);
    notes.is_doubtful = true;
  }
  if (keeps && model.trains && !has_names(model)) {
    notes.lines += kept_range(folder, model.config);
  }
  return notes;
}

}  // namespace

bool keeps_new_head(const ModelInstance& model, const config::Config& input) {
  if (!leaves_head(model, input)) return false;
  if (!input.model.pretrained) return true;
  const ClassifierUse use = head_use(model, input);
  std::optional<model::PeftAdapter> adapter = adapter_of(input, model.config.family);
  leave_head(model, use, adapter);
  if (!use.rows.empty() || (adapter && !adapter->replaced().empty())) return true;
  const model::LoadReport report = model::check_hf_weights(*input.model.pretrained, model.all_parameters(),
                                                           load_options(model, input, use, adapter));
  return !report.newly_initialised.empty() || !report.differences.empty();
}

LoadNotes check_pretrained(const ModelInstance& model, const config::Config& input) {
  if (!input.model.pretrained) return {};
  const ClassifierUse use = head_use(model, input);
  std::optional<model::PeftAdapter> adapter = adapter_of(input, model.config.family);
  leave_head(model, use, adapter);
  return report_folder(model, input, use, adapter);
}

namespace {

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

void load_pretrained(ModelInstance& model, const config::Config& input, LoadNotes& notes) {
  const comm::Communicator& world = model.groups().world;
  const bool loads = model.coordinates.data == 0;
  std::optional<model::PeftAdapter> adapter;
  std::vector<std::string> fresh;
  ClassifierUse use;
  collectively(model.groups().world, [&] {
    if (!loads) return;
    use = head_use(model, input);
    if (input.model.lora.adapter) adapter.emplace(*input.model.lora.adapter, model.config.family);
    leave_head(model, use, adapter);
    const model::LoadOptions options = load_options(model, input, use, adapter);
    if (world.rank() == 0) notes = report_folder(model, input, use, adapter);
    fresh = model::load_hf_weights(*input.model.pretrained, model.parameters, options).newly_initialised;
    initialize_missing(model, input, adapter, fresh);
  });
  set_magnitudes(model);
  const std::uint64_t base = input.model.lora.adapter ? base_hash(model) : 0;
  collectively(model.groups().world, [&] {
    if (!loads) return;
    if (adapter && world.rank() == 0) require_fit(*adapter, model, *input.model.lora.adapter, base);
    if (adapter) adapter->load(model.parameters, model.plan.weights);
    remove_replaced(fresh, adapter);
    reorder_rows(model.plan.head.classifier, use.rows, model.parameters);
    objectives::head_into_training_unit(model.output_rules.scales, model.plan.head.classifier, fresh, model.parameters);
  });
}

}  // namespace

LoadNotes load_values(ModelInstance& model, const config::Config& input) {
  LoadNotes notes;
  if (input.model.pretrained) {
    load_pretrained(model, input, notes);
  } else if (model.coordinates.data == 0) {
    model::initialize_parameters(model.parameters, model.config, static_cast<std::uint64_t>(input.run.seed));
    set_magnitudes(model);
  }
  model.groups().data->broadcast(model.parameters.change_values(), 0);
  return notes;
}

void load_folder(ModelInstance& model, const std::string& folder) {
  collectively(model.groups().world, [&] {
    if (model.coordinates.data != 0) return;
    model::load_hf_weights(folder, model.parameters, {.family = model.config.family, .weights = model.plan.weights});
    objectives::head_into_training_unit(model.output_rules.scales, model.plan.head.classifier, {}, model.parameters);
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
