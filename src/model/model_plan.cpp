#include "bert_hpc/model/model_plan.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/model/model_parameters.hpp"
#include "families/family.hpp"

namespace bert_hpc::model {
namespace {

/// Appends what of a layer with these parameters takes part, where a layer below does or not.
void add_training(const std::vector<core::ParameterSpec>& specs, const Trains& trains,
                  std::vector<LayerTraining>& training) {
  LayerTraining layer{.backward = !training.empty() && training.back().backward};
  double elements = 0, trained = 0;
  for (const core::ParameterSpec& spec : specs) {
    const bool changes = trains(spec.copy_of.empty() ? spec.name : spec.copy_of);
    layer.backward = layer.backward || changes;
    if (spec.shape.size() != 2) continue;
    const auto size = static_cast<double>(core::elements_of(spec.shape));
    elements += size;
    trained += changes ? size : 0;
  }
  if (elements > 0) layer.weights = trained / elements;
  training.push_back(layer);
}

}  // namespace

std::int64_t ModelPlan::most_columns() const {
  std::int64_t most = 0;
  for (std::int64_t i = 0; i <= sublayer_count(); ++i) most = std::max(most, width(i));
  return most;
}

std::int64_t ModelPlan::most_exchanged_columns() const {
  std::int64_t most = std::max({most_columns(), input->most_columns(), head.decoded()});
  for (const Projection& projection : projections) most = std::max(most, projection.out);
  return most;
}

bool ModelPlan::can_be_shared() const {
  return input->can_be_shared() &&
         std::all_of(sublayers.begin(), sublayers.end(), [](const auto& s) { return s.kind->can_be_shared(); });
}

void set_trains(ModelPlan& plan, Trains trains) {
  plan.trains = std::move(trains);
  plan.training.clear();
  if (!plan.trains) return;
  std::vector<core::ParameterSpec> specs;
  plan.input->declare(specs, {});
  add_training(specs, plan.trains, plan.training);
  for (const layers::SublayerSettings& sublayer : plan.sublayers) {
    specs.clear();
    layers::declare_sublayer(sublayer, specs);
    add_training(specs, plan.trains, plan.training);
  }
  specs.clear();
  ModelRange apart = whole(plan);
  apart.decoder_apart = true;  // a tied decoder is a product of the head
  layers::declare_head(head_of(plan, apart), specs);
  add_training(specs, plan.trains, plan.training);
}

namespace {

/// Throws Error(input) if the head predicts tokens that this family's attention shows to it, or hides from it.
void require_fitting_head(const Family& family, const HeadKind& kind) {
  if (!kind.predicts_tokens || kind.predicts_next_tokens == family.causal) return;
  std::string others;
  for (const Family* const other : families()) {
    if (other->causal == family.causal || !other->attention) continue;
    others += (others.empty() ? "\"" : " or \"") + other->model_type + '"';
  }
  throw core::Error(core::ExitCode::input,
                    family.causal
                        ? "the task \"masked_lm\" does not fit the model family \"" + family.model_type +
                              "\", as no token sees those after it: use the task \"causal_lm\", or a model of family " +
                              others + '.'
                        : "the task \"causal_lm\" does not fit the model family \"" + family.model_type +
                              "\", as each token sees those after it, which are to be predicted: use the task "
                              "\"masked_lm\", or a model of family " +
                              others + '.');
}

}  // namespace

ModelPlan make_plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs, core::DataType storage) {
  const Family& family = family_of(config.family);
  require_fitting_head(family, kind);
  ModelPlan plan = family.plan(config, kind, outputs);
  plan.head.word_embeddings = family.names.word_embeddings;
  plan.head.decoder = family.names.decoder;
  plan.head.ties_word_embeddings = kind.predicts_tokens && config.ties_word_embeddings;
  if (plan.head.ties_word_embeddings) {
    plan.weights.set_tied(family.names.decoder);
  } else if (kind.predicts_tokens && !family.names.decoder_bias.empty()) {
    plan.head.bias = family.names.decoder_bias;  // in such files that of the decoder, which no other name shares
  }
  plan.head_reads_sum = config.outputs_sum;
  plan.storage = plan.head.storage = storage;
  for (layers::SublayerSettings& sublayer : plan.sublayers) sublayer.storage = storage;
  return plan;
}

bool positions_after_padding(const ModelConfig& config) {
  return family_of(config.family).positions_after_padding;
}

bool reads_mask_tokens(const ModelConfig& config) {
  return family_of(config.family).reads_mask_tokens;
}

bool is_causal(const ModelConfig& config) {
  return family_of(config.family).causal;
}

std::string word_embeddings_name(const ModelConfig& config) {
  return family_of(config.family).names.word_embeddings;
}

std::string decoder_name(const ModelConfig& config) {
  return family_of(config.family).names.decoder;
}

}  // namespace bert_hpc::model
