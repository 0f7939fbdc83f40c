// AdamW with moments of 8 bits (Dettmers et al., "8-bit optimizers via block-wise quantization", 2022): what adamw.cpp
// computes, of moments that are decoded before an update and encoded after it. Moments of small tensors, as biases and
// norms, stay in fp32. Second moments have no signs, and do not vanish (dynamic8.hpp).
#include <algorithm>

#include "adamw_element.hpp"
#include "bert_hpc/core/device_memory.hpp"
#include "update_kernels.hpp"

namespace bert_hpc::ops {
namespace optimizers {

struct Adamw8bitElement : AdamwElement {
  static constexpr bool in_blocks = true;

  Adamw8bitElement(const MomentSettings& settings, const UpdateStep& step, bool decays, const float* of_code)
      : AdamwElement(settings, step, decays), values{{of_code, true}, {of_code + 256, false}} {}

  updates::DecodedValues values[2];
};

class Adamw8bit final : public UpdateRule {
 public:
  explicit Adamw8bit(const MomentSettings& settings) : settings_(settings) {
    std::copy_n(dynamic8::values(true).data(), 256, values_.host());
    std::copy_n(dynamic8::values(false).data(), 256, values_.host() + 256);
    values_.to_device(values_.size());
  }

  void update(const UpdateStep& step, const UpdateRanges& ranges, std::size_t first, std::size_t last) const override {
    updates::update("bert_hpc::ops::adamw8bit", step, ranges, first, last, element(step, true, values_.device()),
                    element(step, false, values_.device()));
  }
  void update_on_host(const UpdateStep& step, const HostRange& range) const override {
    updates::update_on_host("bert_hpc::ops::adamw8bit_on_host", range, element(step, range.decay, values_.host()));
  }

 private:
  Adamw8bitElement element(const UpdateStep& step, bool decays, const float* of_code) const {
    return {settings_, step, decays, of_code};
  }

  MomentSettings settings_;
  core::MirroredArray<float> values_{512};  // of codes, those with signs first
};

}  // namespace optimizers

OptimizerKind adamw8bit() {
  OptimizerKind kind = optimizers::moment_kind<optimizers::Adamw8bit>("adamw8bit", 1e-8);
  kind.states[0].form = StateForm::signed_blocks;
  kind.states[1].form = StateForm::unsigned_blocks;
  return kind;
}

}  // namespace bert_hpc::ops
