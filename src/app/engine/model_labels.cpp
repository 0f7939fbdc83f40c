#include "bert_hpc/app/engine/model_labels.hpp"

#include <algorithm>

#include "bert_hpc/config/parse_toml.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/hf_config.hpp"

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

/// The same names in another order.
bool are_reordered(const LabelNames& model, const LabelNames& shards) {
  if (model == shards || model.size() != shards.size()) return false;
  LabelNames a = model, b = shards;
  std::sort(a.begin(), a.end());
  std::sort(b.begin(), b.end());
  return a == b;
}

/// The line that prepares text with these labels, whole, as it is to be copied.
std::string task_labels(const LabelNames& names) {
  if (names.size() > max_copied) return "labels = [ … ]  # config.json's id2label, in the order of its numbers";
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + config::toml_string(name);
  return "labels = [" + text + "]";
}

std::string remedy(const LabelNames& labels) {
  return "Prepare the text with the model's labels; in bert_hpc_prep's input:\n  [task]\n  " + task_labels(labels);
}

}  // namespace

LabelNames labels_in_use(const std::string& mode, const LabelNames& model, const LabelNames& shards) {
  if (mode == "predict" || shards.empty()) return model;
  if (mode == "train" || shards == model) return shards;
  const bool reordered = are_reordered(model, shards), by_number = are_numbers(shards) && !reordered;
  if (by_number && shards.size() <= model.size() && shards == numbers(shards.size()) && has_names(model)) return model;
  const std::string theirs =
      "the shards have " + core::counted(std::ssize(shards), "label") + ", " + names_text(shards) + "; the model has ";
  if (has_names(model)) {
    throw core::Error(core::ExitCode::data,
                      theirs + (reordered ? "the same in another order" : core::with_commas(std::ssize(model))) + ", " +
                          names_text(model) + ". " + remedy(by_number ? numbers(model.size()) : model));
  }
  if (shards.size() != model.size()) {
    throw core::Error(core::ExitCode::data, theirs +
                                                core::counted(std::ssize(model), "unnamed class", "unnamed classes") +
                                                ". Evaluate with shards of the labels that it was trained on.");
  }
  return shards;
}

std::string labels_note(const LabelNames& model, const LabelNames& shards) {
  if (shards.empty() || model == shards) return {};
  const bool reordered = are_reordered(model, shards);
  std::string text;
  for (std::size_t i = 0; i < std::min({model.size(), shards.size(), max_shown}); ++i) {
    text += (i == 0 ? "" : ", ") + core::printable(model[i], longest_shown) + " is " +
            core::printable(shards[i], longest_shown);
  }
  if (std::min(model.size(), shards.size()) > max_shown) text += ", …";
  return std::string(reordered ? "the model has the shards' labels in another order"
                               : "the model and the shards name their labels differently") +
         "; classes are matched by number: " + text + (reordered ? ". " + remedy(model) : "");
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

std::string kept_classifier(const std::string& folder, const LabelNames& shards) {
  const std::string note = labels_note(model::read_hf_config(folder).label_names, shards);
  return note.empty() ? note : "the pretrained classifier is kept: " + note + "\n";
}

}  // namespace bert_hpc::app
