#include "bert_hpc/model/hf_weights.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <set>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/json_strict.hpp"
#include "bert_hpc/core/text.hpp"
#include "families/family.hpp"
#include "hf_checkpoint.hpp"

namespace bert_hpc::model {
namespace {

using core::Error;
using core::ExitCode;
using core::ProblemList;

constexpr std::int64_t most_listed = 8;      // parameters that a message lists
constexpr std::size_t longest_listed = 300;  // names of other tensors, in characters

struct Wanted {
  std::string name;
  WeightSource source;
  std::vector<std::int64_t> shape;  // of the source
  bool adapter = false;             // never in a folder
};

// What a load will do: for each wanted parameter the entry to read, or null for one that stays as it is.
struct LoadPlan {
  std::vector<const HfCheckpoint::Entry*> sources;
  LoadReport report;
};

bool has_prefix(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(), [&name](const std::string& p) { return name.starts_with(p); });
}

bool is_one_of(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Whether `stored` is `wanted`, of one row, with two.
bool has_two_rows(std::vector<std::int64_t> stored, const std::vector<std::int64_t>& wanted) {
  if (stored.empty() || stored.front() != 2) return false;
  stored.front() = 1;
  return stored == wanted;
}

/// values (n): the row `minuend` (0 or 1) of the entry's two rows of n numbers minus the other row.
void read_difference(const HfCheckpoint& checkpoint, const HfCheckpoint::Entry& entry, std::size_t minuend,
                     std::span<float> values) {
  std::vector<float> rows(2 * values.size());
  checkpoint.read(entry, rows);
  const std::span<const float> from = std::span(rows).subspan(minuend * values.size(), values.size());
  const std::span<const float> other = std::span(rows).subspan((1 - minuend) * values.size(), values.size());
  std::transform(from.begin(), from.end(), other.begin(), values.begin(), std::minus<>());
}

bool is_weight_type(const std::string& dtype) {
  return dtype == "F32" || dtype == "F16" || dtype == "BF16";
}

const HfCheckpoint::Entry* entry_of(const HfCheckpoint& checkpoint, const WeightNames& names,
                                    const WeightSource& source) {
  const HfCheckpoint::Entry* entry = checkpoint.find(source.tensor);
  // The decoder's bias has been stored under either of two names that share their memory in Transformers.
  return entry == nullptr && source.tensor == names.prediction_bias ? checkpoint.find(names.decoder_bias) : entry;
}

void report_unused(const HfCheckpoint& checkpoint, const WeightNames& names, const WeightTable& weights,
                   const std::vector<Wanted>& wanted, LoadReport& report) {
  std::set<std::string> used;
  for (const Wanted& parameter : wanted) used.insert(parameter.source.tensor);
  if (!weights.tied().empty()) used.insert({names.decoder_bias, weights.tied()});
  for (const auto& [name, entry] : checkpoint.entries()) {
    if (!used.contains(name)) report.unused.push_back(entry.tensor->name);
  }
}

/// whole_model: `wanted` is all of a model, so that an error lists tensors without a parameter.
LoadPlan plan_load(const HfCheckpoint& checkpoint, const std::filesystem::path& folder,
                   const std::vector<Wanted>& wanted, const LoadOptions& options, bool whole_model = false) {
  const Family& family = family_of(options.family);
  const WeightNames& names = family.names;
  LoadPlan plan;
  ProblemList problems;
  const bool classifies = std::any_of(checkpoint.entries().begin(), checkpoint.entries().end(), [&](const auto& entry) {
    return has_prefix(entry.first, names.sequence_head) && !entry.first.starts_with(names.base);
  });
  const bool predicts_tokens =
      !classifies && (names.prediction_transform.empty() || checkpoint.find(names.prediction_transform));
  bool lacks_classifier = false;
  std::int64_t listed = 0, more_missing = 0, more_misshaped = 0;
  const auto list = [&](std::int64_t& more, const std::string& problem) {
    if (++listed > most_listed) {
      ++more;
    } else {
      problems.add(problem);
    }
  };
  std::set<std::string> named;  // tensors with problems; several parameters may share one
  for (const Wanted& parameter : wanted) {
    if (parameter.adapter) {
      plan.sources.push_back(nullptr);
      continue;
    }
    const HfCheckpoint::Entry* source = entry_of(checkpoint, names, parameter.source);
    const bool optional = has_prefix(parameter.name, options.may_be_missing);
    const bool is_difference = source != nullptr && is_one_of(options.differences, parameter.name) &&
                               !is_one_of(options.not_wanted, parameter.name) &&
                               has_two_rows(source->tensor->shape, parameter.shape);
    if (is_difference) plan.report.differences.push_back(parameter.name);
    const bool other_shape = source != nullptr && !is_difference && source->tensor->shape != parameter.shape;
    if (source != nullptr && !other_shape && optional && is_one_of(options.not_wanted, parameter.name)) {
      plan.report.left.push_back(parameter.name);
      source = nullptr;
    }
    if (other_shape && optional && options.replace_other_shapes) {
      plan.report.replaced.push_back(source->tensor->name + " (shape " + shape_text(source->tensor->shape) +
                                     ", but this task needs " + shape_text(parameter.shape) + ")");
      source = nullptr;
    }
    plan.sources.push_back(source);
    const auto is_first = [&] { return named.insert(parameter.source.tensor).second; };
    if (source == nullptr) {
      if (optional) {
        plan.report.newly_initialised.push_back(parameter.name);
      } else if (!classifies && has_prefix(parameter.name, names.sequence_head)) {
        lacks_classifier = true;
      } else if (is_first()) {
        list(more_missing,
             parameter.source.tensor + " is missing; it should have the shape " + shape_text(parameter.shape) + ".");
      }
    } else if (other_shape && is_first()) {
      list(more_misshaped, checkpoint.describe(*source) + " has the shape " + shape_text(source->tensor->shape) +
                               ", but config.json and the task make it " + shape_text(parameter.shape) + ".");
    } else if (!is_weight_type(source->tensor->dtype) && is_first()) {
      problems.add(checkpoint.describe(*source) + " is of type " + core::in_quotes(source->tensor->dtype) +
                   ", but weights must be F32, F16 or BF16.");
    }
  }
  if (lacks_classifier) {
    problems.add(std::string(predicts_tokens ? "It holds a language model, which has no classifier yet"
                                             : "It holds an encoder, which is not fine-tuned and has no classifier") +
                 ": train it for the task first (run.mode = \"train\" with model.pretrained = this folder), and use "
                 "the model that this run writes.");
  }
  std::string rest;
  if (more_missing > 0) rest = core::counted(more_missing, "more parameter is", "more parameters are") + " missing";
  if (more_misshaped > 0) {
    rest += (rest.empty() ? "" : ", and ") +
            core::counted(more_misshaped, "more tensor has another shape", "more tensors have other shapes");
  }
  if (!rest.empty()) problems.add(rest + '.');
  const bool foreign = std::all_of(plan.sources.begin(), plan.sources.end(), [](auto source) { return !source; });
  if (foreign && !checkpoint.entries().empty() && plan.report.left.empty()) {
    throw Error(ExitCode::files,
                folder.string() + ": nothing in it has a " + family.title + " model's name: its first tensor is " +
                    checkpoint.describe(checkpoint.entries().begin()->second) + ", but names are expected such as " +
                    core::printable(wanted.front().source.tensor) + ".");
  }
  report_unused(checkpoint, names, options.weights, wanted, plan.report);
  if (whole_model && !problems.empty() && !plan.report.unused.empty()) {
    problems.add("The model has no parameters for " + core::counted(std::ssize(plan.report.unused), "tensor") + ": " +
                 core::printable(core::listed(plan.report.unused, "and", false), longest_listed) + '.');
  }
  problems.throw_if_any(ExitCode::files, folder.string() + ": the weights do not fit the model:");
  plan.report.wrapper = checkpoint.wrapper();
  return plan;
}

/// Takes specs or slices of parameters.
template <class Parameters>
std::vector<Wanted> wanted_of(const Parameters& parameters, const WeightTable& table) {
  std::vector<Wanted> wanted;
  for (const auto& parameter : parameters) {
    const std::string& name = parameter.copy_of.empty() ? parameter.name : parameter.copy_of;
    WeightSource source = table.source_of(name);
    std::vector<std::int64_t> shape = stored_shape(source, core::whole_shape(parameter.shape, parameter.shard));
    wanted.push_back({name, std::move(source), std::move(shape), parameter.adapter});
  }
  return wanted;
}

/// Whether the word embeddings are the decoder too, without a parameter of its name.
bool wants_decoder(const core::ParameterStore& store, const std::string& tied) {
  const auto is_decoder = [&tied](const core::ParameterSlice& slice) { return slice.name == tied; };
  return !tied.empty() && std::none_of(store.slices().begin(), store.slices().end(), is_decoder);
}

void check_finite(const HfCheckpoint& checkpoint, const HfCheckpoint::Entry& source, const core::ShardRuns& runs,
                  std::span<const float> values, ProblemList& problems) {
  constexpr std::uint32_t exponent = 0x7F800000u;
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) {
    return (std::bit_cast<std::uint32_t>(value) & exponent) == exponent;
  });
  if (bad == values.end()) return;
  const std::int64_t element = runs.index(bad - values.begin());
  problems.add(checkpoint.describe(source) + " contains " + (std::isnan(*bad) ? "NaN" : "an infinite value") +
               " (at element " + std::to_string(element) + ").");
}

// A stored decoder must equal the weights it is tied to here.
void check_tie(const HfCheckpoint& checkpoint, const std::string& name, const core::ParameterSlice& slice,
               std::span<const float> tied_to, const std::string& tied_name, ProblemList& problems) {
  const HfCheckpoint::Entry* entry = checkpoint.find(name);
  if (entry == nullptr) return;
  bool equal = entry->tensor->shape == core::whole_shape(slice.shape, slice.shard);
  if (equal) {
    std::vector<float> values(tied_to.size());
    checkpoint.read(*entry, core::runs_of(slice.shape, slice.shard), values);
    equal = std::equal(values.begin(), values.end(), tied_to.begin());
  }
  if (!equal) {
    problems.add(checkpoint.describe(*entry) + " differs from " + tied_name +
                 ": the model was trained with a decoder of its own; set \"tie_word_embeddings\": false in its "
                 "config.json.");
  }
}

}  // namespace

std::string LoadReport::text() const {
  constexpr std::size_t longest_shown = 300;
  const auto line = [](const char* title, const std::vector<std::string>& names) {
    if (names.empty()) return std::string();
    std::string result = std::string(title) + " (" + std::to_string(names.size()) + "):";
    for (const std::string& name : names) {
      result += (&name == &names.front() ? " " : ", ") + core::printable(name, longest_shown);
    }
    return result + "\n";
  };
  std::vector<std::string> not_used = replaced;
  not_used.insert(not_used.end(), left.begin(), left.end());
  not_used.insert(not_used.end(), unused.begin(), unused.end());
  const std::string read_without =
      wrapper.empty() ? "" : "names in the file begin with \"" + wrapper + "\", as of a wrapped model: read without\n";
  return read_without + line("newly initialised", newly_initialised) + line("not used from the file", not_used);
}

std::vector<std::string> head_prefixes(const layers::HeadKind& head, const std::string& family) {
  const WeightNames& names = family_of(family).names;
  std::vector<std::string> prefixes = names.sequence_head;
  if (head.predicts_tokens) {
    prefixes = names.masked_lm_head;
    if (head.labels_sequences) {
      prefixes.insert(prefixes.end(), names.pretraining_head.begin(), names.pretraining_head.end());
    }
  } else if (head.reads_all_tokens) {
    prefixes = {names.classifier.empty() ? std::string(head.classifier) + '.' : names.classifier};
  }
  if (!names.shared_head.empty()) prefixes.push_back(names.shared_head);
  return prefixes;
}

LoadReport check_hf_weights(const std::filesystem::path& folder, const core::ParameterStore& store,
                            const LoadOptions& options) {
  const HfCheckpoint checkpoint(folder, family_of(options.family));
  return plan_load(checkpoint, folder, wanted_of(store.slices(), options.weights), options).report;
}

LoadReport check_hf_weights(const std::filesystem::path& folder, const std::vector<core::ParameterSpec>& specs,
                            const LoadOptions& options) {
  const HfCheckpoint checkpoint(folder, family_of(options.family));
  return plan_load(checkpoint, folder, wanted_of(specs, options.weights), options, true).report;
}

LoadReport load_hf_weights(const std::filesystem::path& folder, core::ParameterStore& store,
                           const LoadOptions& options) {
  const HfCheckpoint checkpoint(folder, family_of(options.family));
  const std::vector<Wanted> wanted = wanted_of(store.slices(), options.weights);
  LoadPlan plan = plan_load(checkpoint, folder, wanted, options);
  const WeightNames& names = family_of(options.family).names;
  ProblemList problems;
  const std::span<float> all = store.change_values();
  const auto values_of = [&all](const core::ParameterSlice& slice) {
    return all.subspan(static_cast<std::size_t>(slice.offset), static_cast<std::size_t>(slice.size));
  };
  std::vector<float> staging;
  for (std::size_t i = 0; i < plan.sources.size(); ++i) {
    if (plan.sources[i] == nullptr) continue;
    const core::ParameterSlice& slice = store.slices()[i];
    const std::span<float> values = core::host_side(values_of(slice), staging);
    const WeightSource& source = wanted[i].source;
    const core::ShardRuns runs = stored_runs(source, slice.shape, slice.shard);
    if (is_one_of(plan.report.differences, slice.name)) {
      read_difference(checkpoint, *plan.sources[i], options.minuend, values);
    } else {
      checkpoint.read(*plan.sources[i], runs, values);
    }
    check_finite(checkpoint, *plan.sources[i], runs, values, problems);
    to_parameter_order(source, slice.shape, values);
    core::copy_to_device<float>(values, values_of(slice));
  }
  for (const core::ParameterSlice& slice : store.slices()) {
    const bool embeds = slice.name == names.word_embeddings && wants_decoder(store, options.weights.tied());
    const auto tied_to = [&] { return core::on_host<float>(values_of(slice), staging); };
    if (embeds || (slice.name == names.decoder && slice.name == options.weights.tied())) {
      check_tie(checkpoint, names.decoder, slice, tied_to(), names.word_embeddings, problems);
    }
    if (slice.name == names.prediction_bias && !names.decoder_bias.empty()) {
      check_tie(checkpoint, names.decoder_bias, slice, tied_to(), names.prediction_bias, problems);
    }
  }
  problems.throw_if_any(ExitCode::files, folder.string() + ": the weights cannot be used:");
  return std::move(plan.report);
}

}  // namespace bert_hpc::model
