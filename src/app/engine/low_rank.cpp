#include "app/engine/low_rank.hpp"

#include <algorithm>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/core/rng.hpp"
#include "bert_hpc/core/text.hpp"
#include "bert_hpc/model/model_parameters.hpp"
#include "bert_hpc/ops/flat.hpp"

namespace bert_hpc::app {

using core::Error;
using core::ExitCode;

namespace {

/// What the input says replaces the value; `problems` gets it where an adapter says something else.
template <class T, class Text>
void set(const char* key, const std::optional<T>& given, bool fixed, const Text& text, T& value,
         core::ProblemList& problems) {
  if (!given) return;
  if (fixed && *given != value) {
    problems.add("[model.lora] " + std::string(key) + " = " + text(*given) + ", but the adapter has " + text(value) +
                 ": leave the key out.");
  }
  value = *given;
}

/// Collective: of each number the sum over the group, modulo 2^64.
std::vector<std::uint64_t> sums_of(const std::vector<std::uint64_t>& mine, comm::Communicator& group) {
  std::vector<std::uint64_t> all(mine.size() * static_cast<std::size_t>(group.size())), sums(mine.size());
  group.all_gather(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < all.size(); ++i) sums[i % mine.size()] += all[i];
  return sums;
}

}  // namespace

std::optional<model::PeftAdapter> adapter_of(const config::Config& input, const std::string& family) {
  if (!input.model.lora.adapter) return {};
  return model::PeftAdapter(*input.model.lora.adapter, family);
}

model::LowRankSettings low_rank_settings(const config::Config& input, const std::string& family) {
  const config::Lora& lora = input.model.lora;
  const std::optional<model::PeftAdapter> adapter = adapter_of(input, family);
  const bool fixed = adapter.has_value();
  model::LowRankSettings settings = adapter ? adapter->settings() : model::LowRankSettings();
  core::ProblemList problems;
  set(
      "rank", lora.rank, fixed, [](std::int64_t n) { return std::to_string(n); }, settings.rank, problems);
  set(
      "alpha", lora.alpha, fixed, [](double x) { return core::format_number(x); }, settings.alpha, problems);
  const auto truth = [](bool on) { return std::string(on ? "true" : "false"); };
  set("rslora", lora.rslora, fixed, truth, settings.rank_stabilized, problems);
  set("dora", lora.dora, fixed, truth, settings.magnitudes, problems);
  if (lora.dropout) settings.dropout = *lora.dropout;
  if (fixed && !lora.targets.empty()) problems.add("[model.lora] targets are those of the adapter: leave the key out.");
  if (!fixed) settings.targets = lora.targets;
  if (input.precision.compute == "fp8") {
    problems.add("[model] trainable = \"lora\" does not go with [precision] compute = \"fp8\": use \"bf16\".");
  }
  problems.throw_if_any(ExitCode::input, "the adapters cannot be made:");
  return settings;
}

std::string adapters_text(const model::ModelPlan& plan) {
  if (!plan.low_rank) return {};
  const std::vector<model::BlockLayer> layers = model::block_layers(plan);
  std::set<std::string> adapted;  // several of `layers` may be one in files
  for (const model::BlockLayer& layer : layers) {
    if (layer.adapted) adapted.insert(layer.stored);
  }
  std::string names;
  for (const std::string& name : model::target_modules(plan)) names += (names.empty() ? "" : ", ") + name;
  constexpr std::size_t longest_shown = 160;
  const model::LowRankSettings& s = *plan.low_rank;
  return std::to_string(adapted.size()) + " of rank " + std::to_string(s.rank) +
         (s.magnitudes ? " with magnitudes" : "") + " beside " + core::printable(names, longest_shown) + "; scale " +
         core::format_number(s.scale()) + (s.dropout > 0 ? ", dropout " + core::format_number(s.dropout) : "");
}

void require_fit(const model::PeftAdapter& adapter, const ModelInstance& model, const std::string& folder,
                 std::optional<std::uint64_t> base_hash) {
  adapter.check(model.all_parameters(), model.plan.weights);
  if (!base_hash || !adapter.base_hash() || *base_hash == *adapter.base_hash()) return;
  throw Error(ExitCode::files, folder +
                                   ": this adapter was trained beside another base model: its shapes are those of "
                                   "model.pretrained, its parameters are not. Name the model of its "
                                   "adapter_config.json (base_model_name_or_path) in [model] pretrained.");
}

std::set<std::string> head_names(const ModelInstance& model) {
  std::vector<core::ParameterSpec> head;
  layers::declare_head(model.plan.head, head);
  std::set<std::string> names;
  for (const core::ParameterSpec& spec : head) names.insert(spec.name);
  return names;
}

std::uint64_t base_hash(const ModelInstance& model) {
  const std::set<std::string> of_head = head_names(model);
  const std::vector<core::ParameterSlice>& slices = model.parameters.slices();
  std::int64_t largest = 1;
  for (const core::ParameterSlice& slice : slices) largest = std::max(largest, slice.size);
  const core::MirroredArray<std::uint64_t> partial((largest + ops::norm_block - 1) / ops::norm_block);
  const auto belongs = [&of_head](const core::ParameterSlice& slice) {
    return !slice.adapter && slice.copy_of.empty() && !of_head.contains(slice.name);
  };
  std::vector<std::uint64_t> hashes(slices.size());
  for (std::size_t i = 0; i < slices.size() && model.coordinates.data == 0; ++i) {
    // A parameter that is whole on each tensor rank counts once.
    if (!belongs(slices[i]) || (slices[i].shard.is_whole() && model.coordinates.tensor != 0)) continue;
    const core::Tensor<const float> value = model.parameters.value(static_cast<int>(i));
    hashes[i] = ops::hash_of_bits({value.data, static_cast<std::size_t>(slices[i].size)},
                                  core::runs_of(slices[i].shape, slices[i].shard), partial);
  }
  const std::vector<std::uint64_t> whole = sums_of(hashes, *model.groups().tensor);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < slices.size() && model.coordinates.data == 0 && model.coordinates.tensor == 0; ++i) {
    if (!belongs(slices[i])) continue;
    // 40 bits each, so that no sum overflows.
    sum += static_cast<std::int64_t>(core::mix64(whole[i] ^ core::fnv1a_64(slices[i].name)) >> 24);
  }
  return static_cast<std::uint64_t>(model.groups().world.sum(sum));
}

}  // namespace bert_hpc::app
