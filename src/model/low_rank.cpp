#include "bert_hpc/model/low_rank.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"

namespace bert_hpc::model {
namespace {

using layers::SublayerLinear;
using layers::SublayerSettings;

bool is_named(const std::string& name, const std::string& target) {
  if (!name.ends_with(target)) return false;
  return name.size() == target.size() || name[name.size() - target.size() - 1] == '.';
}

/// "attention.output.dense" of "bert.encoder.layer.3.attention.output.dense": what blocks have in common.
std::string part_in_block(const std::string& name) {
  const std::size_t digit = name.find_first_of("0123456789");
  const std::size_t dot = digit == std::string::npos ? digit : name.find('.', digit);
  return dot == std::string::npos ? name : name.substr(dot + 1);
}

/// What a user may write: the last parts of layers' names, from the shortest on.
std::vector<std::string> possible_targets(const std::vector<BlockLayer>& layers) {
  std::set<std::string> found = {"all-linear"};
  for (const BlockLayer& layer : layers) {
    const std::string part = part_in_block(layer.stored);
    for (std::size_t dot = part.rfind('.'); dot != std::string::npos; dot = dot == 0 ? dot : part.rfind('.', dot - 1)) {
      found.insert(part.substr(dot + 1));
    }
    found.insert(part);
  }
  return {found.begin(), found.end()};
}

void add_unmatched(const std::string& target, const std::vector<BlockLayer>& layers, core::ProblemList& problems) {
  const std::vector<std::string> possible = possible_targets(layers);
  const std::string nearest = core::nearest_name(target, possible);
  std::string text = "there is no linear layer \"";
  text += core::printable(target, 80) + "\" in this model's blocks";
  text += nearest.empty() ? "." : "; did you mean \"" + nearest + "\"?";
  text += " There are:";
  for (const std::string& name : possible) text += (&name == &possible.front() ? " \"" : ", \"") + name + '"';
  problems.add(text + '.');
}

bool is_target(const std::string& name, const std::vector<std::string>& targets) {
  return std::any_of(targets.begin(), targets.end(),
                     [&name](const std::string& target) { return target == "all-linear" || is_named(name, target); });
}

std::string name_in_files(const ModelPlan& plan, const std::string& layer) {
  constexpr std::string_view end = ".weight";
  std::string name = plan.weights.source_of(layer + std::string(end)).tensor;
  return name.erase(name.size() - end.size());
}

void check(const std::vector<BlockLayer>& layers, const LowRankSettings& settings) {
  core::ProblemList problems;
  for (const std::string& target : settings.targets) {
    const bool matches = std::any_of(layers.begin(), layers.end(),
                                     [&target](const BlockLayer& layer) { return is_target(layer.stored, {target}); });
    if (!matches) add_unmatched(target, layers, problems);
  }
  for (const BlockLayer& layer : layers) {
    const std::int64_t smaller = std::min(layer.in, layer.out);
    if (!is_target(layer.stored, settings.targets) || settings.rank < smaller) continue;
    problems.add("rank = " + std::to_string(settings.rank) + " is not below the size of " + layer.stored + ", " +
                 std::to_string(layer.out) + " × " + std::to_string(layer.in) + ": write a number from 1 to " +
                 std::to_string(smaller - 1) + ".");
    break;
  }
  problems.throw_if_any(core::ExitCode::input, "[model.lora] does not fit the model:");
}

}  // namespace

double LowRankSettings::scale() const {
  const auto r = static_cast<double>(rank);
  return alpha / (rank_stabilized ? std::sqrt(r) : r);
}

std::vector<BlockLayer> block_layers(const ModelPlan& plan) {
  std::vector<BlockLayer> layers;
  for (const SublayerSettings& s : plan.sublayers) {
    for (SublayerLinear& layer : s.kind->linear_layers(s)) {
      std::string stored = name_in_files(plan, layer.name);
      const bool adapted = s.adapters.adapts(layer.name);
      layers.push_back({.name = std::move(layer.name),
                        .stored = std::move(stored),
                        .block = s.block,
                        .in = layer.in,
                        .out = layer.out,
                        .adapted = adapted});
    }
  }
  return layers;
}

void add_adapters(ModelPlan& plan, const LowRankSettings& settings, std::int64_t frozen_blocks) {
  LowRankSettings s = settings;
  if (block_layers(plan).empty()) {
    throw core::Error(core::ExitCode::input,
                      "[model] trainable = \"lora\" needs linear layers, which this family has none of below its head: "
                      "use \"all\" or \"head\".");
  }
  if (s.targets.empty() && !plan.sublayers.empty()) {
    const SublayerSettings& first = plan.sublayers.front();
    for (const SublayerLinear& layer : first.kind->linear_layers(first)) {
      const std::string name = part_in_block(name_in_files(plan, layer.name));
      const bool is_new = std::find(s.targets.begin(), s.targets.end(), name) == s.targets.end();
      if (layer.usually_adapted && is_new) s.targets.push_back(name);
    }
  }
  check(block_layers(plan), s);
  for (SublayerSettings& sublayer : plan.sublayers) {
    if (sublayer.block < frozen_blocks) continue;
    sublayer.adapters = {.rank = s.rank,
                         .scale = static_cast<float>(s.scale()),
                         .dropout = static_cast<float>(s.dropout),
                         .magnitudes = s.magnitudes};
    for (const SublayerLinear& layer : sublayer.kind->linear_layers(sublayer)) {
      const std::string stored = name_in_files(plan, layer.name);
      if (!is_target(stored, s.targets)) continue;
      sublayer.adapters.layers.push_back(layer.name);
      if (plan.weights.source_of(layer.name + ".weight").tensor_rows > 0) sublayer.adapters.joint = stored;
    }
  }
  const std::vector<BlockLayer> layers = block_layers(plan);
  if (std::none_of(layers.begin(), layers.end(), [](const BlockLayer& layer) { return layer.adapted; })) {
    throw core::Error(core::ExitCode::input, "[model] freeze_layers = " + std::to_string(frozen_blocks) +
                                                 " leaves no layer for the adapters of trainable = \"lora\": write a "
                                                 "smaller number, or use trainable = \"head\".");
  }
  plan.low_rank = std::move(s);
}

std::vector<std::string> target_modules(const ModelPlan& plan) {
  const std::vector<BlockLayer> layers = block_layers(plan);
  std::set<std::string> parts, names;
  for (const BlockLayer& layer : layers) {
    if (!layer.adapted) continue;
    parts.insert(part_in_block(layer.stored));
    names.insert(layer.stored);
  }
  const std::vector<std::string> short_names(parts.begin(), parts.end());
  const bool names_others = std::any_of(layers.begin(), layers.end(), [&](const BlockLayer& layer) {
    return layer.adapted != is_target(layer.stored, short_names);
  });
  return names_others ? std::vector<std::string>(names.begin(), names.end()) : short_names;
}

std::optional<std::string> adapted_layer(const ModelPlan& plan, const std::string& parameter) {
  constexpr std::string_view end = ".weight";
  if (!plan.low_rank || !parameter.ends_with(end)) return {};
  const std::string layer = parameter.substr(0, parameter.size() - end.size());
  const bool adapted =
      std::any_of(plan.sublayers.begin(), plan.sublayers.end(),
                  [&layer](const SublayerSettings& sublayer) { return sublayer.adapters.adapts(layer); });
  return adapted ? std::optional(layer) : std::nullopt;
}

void merge_adapter(const AdapterValues& adapter, core::Tensor<float> w) {
  std::vector<float> change(static_cast<std::size_t>(w.columns));
  for (std::int64_t o = 0; o < w.rows; ++o) {
    std::fill(change.begin(), change.end(), 0.0f);
    for (std::int64_t k = 0; k < adapter.a.rows; ++k) {
      const float factor = adapter.scale * adapter.b(k, o);
      const float* const row = adapter.a.row(k);
      for (std::size_t i = 0; i < change.size(); ++i) change[i] += factor * row[i];
    }
    float* const row = w.row(o);
    double squares = 0;
    for (std::size_t i = 0; i < change.size(); ++i) {
      row[i] += change[i];
      squares += static_cast<double>(row[i]) * row[i];
    }
    const double norm = adapter.norms != nullptr ? adapter.norms[o] : std::sqrt(squares);
    if (adapter.magnitudes == nullptr || norm == 0) continue;
    const auto factor = static_cast<float>(adapter.magnitudes[o] / norm);
    for (std::size_t i = 0; i < change.size(); ++i) row[i] *= factor;
  }
}

}  // namespace bert_hpc::model
