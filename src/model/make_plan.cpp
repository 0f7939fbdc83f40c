#include "bert_hpc/model/make_plan.hpp"

#include <algorithm>

#include "bert_hpc/core/device_memory.hpp"
#include "bert_hpc/core/error.hpp"
#include "bert_hpc/core/text.hpp"
#include "families/family.hpp"

namespace bert_hpc::model {
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

/// Throws Error(input) if models of this family predict nothing of sequences when they are pretrained.
void require_pretraining_head(const Family& family, const HeadKind& kind) {
  if (!kind.labels_sequences || !family.names.pretraining_head.empty()) return;
  std::vector<std::string> others;
  for (const Family* const other : families()) {
    if (!other->names.pretraining_head.empty()) others.push_back('"' + other->model_type + '"');
  }
  throw core::Error(core::ExitCode::input,
                    "the task \"masked_lm_pairs\" does not fit the model family \"" + family.model_type +
                        "\", whose models predict nothing of pairs of texts: use the task \"masked_lm\", or a model of "
                        "family " +
                        core::listed(others, "or", false) + '.');
}

}  // namespace

ModelPlan make_plan(const ModelConfig& config, const HeadKind& kind, std::int64_t outputs, core::DataType storage) {
  const Family& family = family_of(config.family);
  require_fitting_head(family, kind);
  require_pretraining_head(family, kind);
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
  if (plan.head.sequences != nullptr) {
    auto sequences = std::make_shared<layers::HeadSettings>(*plan.head.sequences);
    sequences->storage = storage;
    plan.head.sequences = std::move(sequences);
  }
  for (layers::SublayerSettings& sublayer : plan.sublayers) sublayer.storage = storage;
  limit_logits(plan, core::is_gpu_build());
  return plan;
}

// The products of each part read and write the decoder's gradient, outputs · hidden floats, beside 6 · rows · outputs ·
// hidden operations. This takes 150 / rows of the operations' time on a GPU with 4 TB/s and 450 TFLOP/s, and 8.3 / rows
// on a CPU with 40 GB/s and 250 GFLOP/s. Parts have at least half as many rows as the limit, so at most 4%.
void limit_logits(ModelPlan& plan, bool on_gpus) {
  if (!plan.head.kind.predicts_tokens) return;
  const std::int64_t elements = std::int64_t{1} << (on_gpus ? 29 : 26);  // 1 GiB in 16 bits; 256 MiB in floats
  const std::int64_t least = on_gpus ? 8192 : 512;
  plan.head.rows_at_once = std::max(least, elements / plan.head.outputs / 64 * 64);
}

bool positions_after_padding(const ModelConfig& config) {
  return family_of(config.family).positions_after_padding;
}

bool reads_mask_tokens(const ModelConfig& config) {
  return family_of(config.family).reads_mask_tokens;
}

bool shares_blocks(const ModelConfig& config) {
  return make_plan(config, layers::sequence_head(), 1).shares_blocks;
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
