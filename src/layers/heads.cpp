#include "bert_hpc/layers/heads.hpp"

#include "masked_lm_head.hpp"
#include "sequence_head.hpp"

namespace bert_hpc::layers {

void declare_head(const HeadSettings& settings, std::vector<core::ParameterSpec>& specs, const TensorPlace& place) {
  if (settings.kind == HeadSettings::Kind::masked_lm) return MaskedLmHead::declare(settings, specs, place);
  SequenceHead::declare(settings, specs);
}

std::unique_ptr<Head> make_head(const HeadSettings& settings, const core::ParameterStore& parameters,
                                const TensorGroup& group) {
  if (settings.kind == HeadSettings::Kind::masked_lm) {
    return std::make_unique<MaskedLmHead>(settings, parameters, group);
  }
  return std::make_unique<SequenceHead>(settings, parameters, group);
}

}  // namespace bert_hpc::layers
