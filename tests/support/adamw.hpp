// AdamW's rule on single ranges, as tests want it.
#pragma once

#include <array>
#include <memory>
#include <span>

#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::test {

namespace ops = bert_hpc::ops;

struct AdamwStep {
  double learning_rate = 0, weight_decay = 0;
  float gradient_scale = 1;
  const float* device_scale = nullptr;
  std::int64_t number = 1'000'000;  ///< of the update: so late that no bias is left to correct
};

inline std::unique_ptr<ops::UpdateRule> adamw_rule(double weight_decay, const char* name = "adamw") {
  const std::array<double, 4> values = {0.9, 0.999, 1e-8, weight_decay};
  return ops::optimizer_kind(name).make(values);
}

inline void adamw_update(const AdamwStep& s, const ops::UpdateRanges& ranges, std::size_t first, std::size_t last) {
  const ops::UpdateStep step{.learning_rate = s.learning_rate,
                             .number = s.number,
                             .gradient_scale = s.gradient_scale,
                             .device_scale = s.device_scale};
  adamw_rule(s.weight_decay)->update(step, ranges, first, last);
}

inline void adamw_update(const AdamwStep& s, std::span<float> value, std::span<float> gradient, std::span<float> first,
                         std::span<float> second, ops::TouchedRows marks = {}) {
  const ops::UpdateRange range{.value = value.data(),
                               .gradient = gradient.data(),
                               .states = {first.data(), second.data()},
                               .marks = marks.marks,
                               .size = static_cast<std::int64_t>(value.size())};
  adamw_update(s, ops::UpdateRanges({&range, 1}), 0, 1);
}

}  // namespace bert_hpc::test
