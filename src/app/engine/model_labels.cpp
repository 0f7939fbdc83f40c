#include "app/engine/model_labels.hpp"

#include <algorithm>
#include <filesystem>
#include <numeric>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/data/name_match.hpp"
#include "bert_hpc/model/hf_config.hpp"
#include "bert_hpc/tasks/task.hpp"

namespace bert_hpc::app {
namespace {

constexpr std::size_t max_shown = 8, max_copied = 1000, longest_shown = 120;  // names; bytes

std::string names_text(const LabelNames& names) {
  return core::printable(core::listed(names, "and"), longest_shown);
}

/// A model that was trained without names has made-up ones.
bool has_names(const LabelNames& model) {
  return model != model::default_label_names(static_cast<std::int64_t>(model.size()));
}

LabelNames numbers(std::size_t count) {
  LabelNames names;
  for (std::size_t i = 0; i < count; ++i) names.push_back(std::to_string(i));
  return names;
}

/// Names that are whole numbers, as files give classes that go by number.
bool are_numbers(const LabelNames& names) {
  return std::all_of(names.begin(), names.end(), [](const std::string& name) {
    return !name.empty() && name.find_first_not_of("0123456789") == std::string::npos;
  });
}

/// Whether one of them has no names, so that classes go by number.
bool lack_names(const LabelNames& model, const LabelNames& labels) {
  return !has_names(model) || labels == numbers(labels.size()) || !has_names(labels);
}

/// The lines that prepare text with these labels, whole, as they are to be copied.
std::string prep_lines(const config::Config& input, const LabelNames& names) {
  const bool are_columns = tasks::named(input.task.name).has_values();
  const std::string key = are_columns ? "  [source]\n  label" : "  [task]\n  labels";
  if (names.size() > max_copied) return key + " = [ … ]  # config.json's id2label, in the order of its numbers";
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + config::toml_string(name);
  return key + " = [" + text + "]";
}

/// End of a sentence that begins with "prepare".
std::string remedy(const config::Config& input, const LabelNames& labels) {
  return " the text with the model's labels; in bert_hpc_prep's input:\n" + prep_lines(input, labels);
}

/// "Positive is positive, Negative is negative, …". rows (labels): the model's class of each label.
std::string pairs_text(const LabelNames& model, const LabelNames& labels, const std::vector<std::int64_t>& rows) {
  std::string text;
  for (std::size_t i = 0; i < std::min(rows.size(), max_shown); ++i) {
    text += (i == 0 ? "" : ", ") + core::printable(model[static_cast<std::size_t>(rows[i])], longest_shown) + " is " +
            core::printable(labels[i], longest_shown);
  }
  return text + (rows.size() > max_shown ? ", …" : "");
}

std::string pairs_by_number(const LabelNames& model, const LabelNames& labels) {
  std::vector<std::int64_t> rows(std::min(model.size(), labels.size()));
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return pairs_text(model, labels, rows);
}

/// The shards' labels, then those that only the model has.
LabelNames with_rest(const LabelNames& model, const LabelNames& shards, const data::NameMatch& match) {
  std::vector<bool> taken(model.size(), false);
  for (const std::int64_t index : match.indices) taken[static_cast<std::size_t>(index)] = true;
  LabelNames all = shards;
  for (std::size_t i = 0; i < model.size(); ++i) {
    if (!taken[i]) all.push_back(model[i]);
  }
  return all;
}

/// Throws Error(data) with what to change.
[[noreturn]] void refuse_labels(const config::Config& input, const LabelNames& model, const LabelNames& shards) {
  const std::string theirs =
      "the shards have " + core::counted(std::ssize(shards), "label") + ", " + names_text(shards) + "; the model has ";
  if (!has_names(model)) {
    throw core::Error(core::ExitCode::data, theirs +
                                                core::counted(std::ssize(model), "unnamed class", "unnamed classes") +
                                                ". Evaluate with shards of the labels that it was trained on.");
  }
  const bool same_count = model.size() == shards.size();
  const std::string keep = ". If they mean the same, set [model] head = \"keep\", which matches them by number (" +
                           pairs_by_number(model, shards) + "); else prepare";
  throw core::Error(core::ExitCode::data, theirs + core::with_commas(std::ssize(model)) + ", " + names_text(model) +
                                              (same_count ? keep : ". Prepare") +
                                              remedy(input, are_numbers(shards) ? numbers(model.size()) : model));
}

}  // namespace

LabelNames labels_in_use(const config::Config& input, const LabelNames& model, const LabelNames& shards) {
  if (input.run.mode == "predict" || shards.empty()) return model;
  if (input.trains() || shards == model) return shards;
  if (const auto match = data::match_names(shards, model)) return with_rest(model, shards, *match);
  if (are_numbers(shards) && shards.size() <= model.size() && shards == numbers(shards.size()) && has_names(model)) {
    return model;
  }
  if (shards.size() == model.size() && (!has_names(model) || input.model.head == "keep")) return shards;
  refuse_labels(input, model, shards);
}

ClassifierUse classifier_use(const config::Config& input, const LabelNames& model, const LabelNames& labels) {
  ClassifierUse use;
  if (input.model.head == "new") {
    use.is_new = true;
    use.note = "the output layer is new, as [model] head says";
    return use;
  }
  if (model == labels || model.size() != labels.size()) return use;
  if (const auto match = data::match_names(labels, model)) {
    const bool in_order = match->in_order();
    if (!in_order) use.rows = match->indices;
    const std::string what = in_order ? "spelling" : match->exact ? "order" : "order and spelling";
    use.note = "the pretrained classifier has these labels in another " + what + ": " +
               (match->exact ? names_text(model) : pairs_text(model, labels, match->indices)) +
               (in_order ? "" : "; its rows are reordered by name, as " + names_text(labels));
    return use;
  }
  use.is_doubtful = true;
  const std::string pairs = pairs_by_number(model, labels);
  if (!input.trains() || input.model.head == "keep" || lack_names(model, labels)) {
    use.note = "the model and the shards name their labels differently; classes are matched by number: " + pairs +
               (input.trains() && input.model.head != "keep"
                    ? ". If that is wrong, set [model] head = \"new\" for a new classifier"
                    : "");
    return use;
  }
  use.is_new = true;
  use.note = "the pretrained classifier has other labels (" + names_text(model) + ") than the shards (" +
             names_text(labels) +
             "), so a new one replaces it. [model] head = \"keep\" keeps it, matched by number: " + pairs;
  return use;
}

std::string unnamed_note(const LabelNames& model, const LabelNames& labels) {
  if (model.size() == labels.size()) return {};
  return "config.json of the pretrained model does not name the " + core::counted(std::ssize(labels), "output") +
         " of its classifier; classes are matched by number: " + pairs_by_number(numbers(labels.size()), labels) +
         ". If that is wrong, set [model] head = \"new\" for a new classifier";
}

std::string numbers_note(const LabelNames& in_use, const LabelNames& shards) {
  const bool same = shards.size() <= in_use.size() && std::equal(shards.begin(), shards.end(), in_use.begin());
  return same ? "" : "classes are matched by number: " + pairs_by_number(in_use, shards);
}

std::string folder_of_labels(const config::Model& model) {
  std::error_code ignored;
  const bool has_own = model.lora.adapter && std::filesystem::exists(*model.lora.adapter + "/config.json", ignored);
  return has_own ? *model.lora.adapter : *model.pretrained;
}

std::string replaced_classifier(const config::Config& input, const LabelNames& model, const LabelNames& labels) {
  if (!has_names(model) || model.size() <= labels.size() || !data::match_names(labels, model)) return {};
  return "the pretrained classifier has " + core::counted(std::ssize(model), "label") +
         ", the shards' among them, and a new one replaces it. To keep it, prepare" + remedy(input, model);
}

namespace {

std::string range_text(const model::ModelConfig& config) {
  if (!config.prediction_range) return "no range";
  return "the range " + core::format_number(config.prediction_range->front()) + " … " +
         core::format_number(config.prediction_range->back());
}

}  // namespace

std::string kept_range(const std::string& folder, const model::ModelConfig& config) {
  const model::ModelConfig there = model::read_hf_config(folder);
  if (there.prediction_range == config.prediction_range) return {};
  return "the pretrained classifier is kept, whose predictions have " + range_text(there) +
         "; in this training they have " + range_text(config) + " ([task] range)\n";
}

void reorder_rows(const std::string& classifier, const std::vector<std::int64_t>& rows,
                  core::ParameterStore& parameters) {
  if (rows.empty()) return;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (slice.name != classifier + ".weight" && slice.name != classifier + ".bias") continue;
    core::require(slice.shard.is_whole() && slice.size % std::ssize(rows) == 0, "a classifier's rows are its labels'");
    const std::span<float> values = parameters.change_values().subspan(static_cast<std::size_t>(slice.offset),
                                                                       static_cast<std::size_t>(slice.size));
    std::vector<float> before(values.size()), after;
    core::copy_to_host(std::span<const float>(values), std::span<float>(before));
    const std::int64_t columns = slice.size / std::ssize(rows);
    for (const std::int64_t row : rows) {
      const auto begin = before.begin() + row * columns;
      after.insert(after.end(), begin, begin + columns);
    }
    core::copy_to_device(std::span<const float>(after), values);
  }
}

}  // namespace bert_hpc::app
