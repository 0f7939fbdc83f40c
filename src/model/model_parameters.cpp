#include "bert_hpc/model/model_parameters.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/hash.hpp"
#include "bert_hpc/model/make_plan.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/random_fill.hpp"

namespace bert_hpc::model {

using core::Tensor;

layers::HeadSettings head_of(const ModelPlan& plan, const ModelRange& range) {
  layers::HeadSettings head = plan.head;
  head.declares_decoder =
      head.kind.predicts_tokens && (!head.ties_word_embeddings || !range.embeddings || range.separate_decoder);
  if (!head.declares_decoder) head.decoder = head.word_embeddings;
  return head;
}

void declare_projection(const ModelPlan& plan, std::int64_t edge, std::vector<core::ParameterSpec>& specs) {
  const Projection* const projection = plan.projection_at(edge);
  if (projection == nullptr) return;
  specs.push_back({.name = projection->name + ".weight", .shape = {projection->out, projection->in}, .adapter = true});
  layers::declare_vector(specs, {.name = projection->name + ".bias", .shape = {projection->out}, .adapter = true});
}

std::vector<core::ParameterSpec> model_parameters(const ModelPlan& plan, const ModelRange& range,
                                                  const layers::TensorRank& tensor_rank) {
  std::vector<core::ParameterSpec> specs;
  if (range.embeddings) {
    plan.input->declare(specs, tensor_rank);
    declare_projection(plan, 0, specs);
  }
  for (std::int64_t i = range.first; i < range.last; ++i) {
    layers::declare_sublayer(plan.sublayers[static_cast<std::size_t>(i)], specs, tensor_rank);
    declare_projection(plan, i + 1, specs);
  }
  if (range.head) layers::declare_head(head_of(plan, range), specs, tensor_rank);
  for (core::ParameterSpec& spec : specs) {
    if (plan.change_spec) plan.change_spec(spec);
    if (plan.trains) spec.trainable = plan.trains(spec.copy_of.empty() ? spec.name : spec.copy_of);
  }
  return specs;
}

void set_sends_gradient(std::vector<ModelRange>& parts, const ModelPlan& plan) {
  for (ModelRange& part : parts) part.sends_gradient = plan.trains_below(part.first);
}

std::vector<core::ParameterSpec> model_parameters(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs,
                                                  const ModelRange& range, const layers::TensorRank& tensor_rank) {
  return model_parameters(make_plan(config, kind, outputs), range, tensor_rank);
}

std::vector<core::ParameterSpec> model_parameters(const ModelConfig& config, const HeadKind& kind,
                                                  std::int64_t outputs) {
  const ModelPlan plan = make_plan(config, kind, outputs);
  return model_parameters(plan, whole(plan));
}

namespace {

/// By `fill`, which is given a run of elements, the parameter's seed and the run's first element in the whole
/// parameter.
template <class Fill>
void fill_random(std::span<float> elements, const core::ParameterSlice& slice, std::uint64_t seed, const Fill& fill) {
  const core::ShardRuns runs = core::runs_of(slice.shape, slice.shard);
  for (std::int64_t r = 0; r < runs.count; ++r) {
    const auto begin = static_cast<std::size_t>(r * runs.length), length = static_cast<std::size_t>(runs.length);
    fill(elements.subspan(begin, length), seed, runs.first + r * runs.stride);
  }
}

}  // namespace

void initialize_parameters(core::ParameterStore& parameters, const ModelConfig& config, std::uint64_t seed,
                           const std::vector<std::string>& only) {
  for (std::size_t i = 0; i < parameters.slices().size(); ++i) {
    const core::ParameterSlice& slice = parameters.slices()[i];
    if (!only.empty() && std::find(only.begin(), only.end(), slice.name) == only.end()) continue;
    const Tensor<float> value = parameters.change_value(static_cast<int>(i));
    const std::span<float> elements(value.data, static_cast<std::size_t>(slice.size));
    const std::string& name = slice.copy_of.empty() ? slice.name : slice.copy_of;
    const std::uint64_t own_seed = seed ^ core::fnv1a_64(name);
    if (slice.initial == core::InitialValues::normal) {
      const auto deviation = static_cast<float>(slice.deviation > 0 ? slice.deviation : config.initializer_range);
      const auto bound = static_cast<float>(slice.cutoff > 0 ? slice.cutoff : 0) * deviation;
      const auto fill = [=](std::span<float> x, std::uint64_t key, std::int64_t first) {
        if (bound > 0) return ops::fill_truncated_normal(x, deviation, bound, key, first);
        ops::fill_normal(x, deviation, key, first);
      };
      fill_random(elements, slice, own_seed, fill);
    } else if (slice.initial == core::InitialValues::uniform) {
      const std::int64_t columns = slice.shard.dimension == 1 ? slice.shard.whole : slice.columns;
      const auto bound = static_cast<float>(1 / std::sqrt(static_cast<double>(columns)));
      fill_random(elements, slice, own_seed, [bound](std::span<float> x, std::uint64_t key, std::int64_t first) {
        ops::fill_uniform(x, bound, key, first);
      });
    } else {
      ops::fill(elements, slice.initial == core::InitialValues::ones ? 1.0f : 0.0f);
    }
    const std::int64_t zero = slice.zero_row - slice.shard.begin;
    if (slice.zero_row >= 0 && zero >= 0 && zero < slice.rows) {
      ops::fill({value.row(zero), static_cast<std::size_t>(slice.columns)}, 0.0f);
    }
  }
}

}  // namespace bert_hpc::model
