#include "bert_hpc/layers/heads.hpp"

#include "bert_hpc/ops/losses.hpp"
#include "masked_lm_head.hpp"
#include "sequence_head.hpp"

namespace bert_hpc::layers {

void cross_entropy_loss(const core::Targets& targets, float scale, Tensor<float> logits, float* row_losses,
                        Tensor<float> d_logits) {
  ops::cross_entropy(logits, targets.classes, scale, row_losses, d_logits);
}

void squared_error_loss(const core::Targets& targets, float scale, Tensor<float> logits, float* row_losses,
                        Tensor<float> d_logits) {
  ops::squared_error(logits, targets.values, scale, row_losses, d_logits);
}

namespace {

template <class AnyHead>
std::unique_ptr<Head> make(const HeadSettings& settings, const core::ParameterStore& parameters,
                           const TensorGroup& group) {
  return std::make_unique<AnyHead>(settings, parameters, group);
}

}  // namespace

HeadKind sequence_head(LossFunction loss) {
  return {.class_suffix = "ForSequenceClassification",
          .loss = loss,
          .declare = SequenceHead::declare,
          .make = make<SequenceHead>};
}

HeadKind masked_lm_head() {
  return {.class_suffix = "ForMaskedLM",
          .ties_word_embeddings = true,
          .declare = MaskedLmHead::declare,
          .make = make<MaskedLmHead>};
}

void declare_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorPlace& place) {
  settings.kind.declare(settings, specs, place);
}

std::unique_ptr<Head> make_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                const TensorGroup& group) {
  return settings.kind.make(settings, parameters, group);
}

}  // namespace bert_hpc::layers
