#include "bert_hpc/train/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/ops/optimizer_update.hpp"

namespace bert_hpc::train {
namespace {

struct DecayRange {
  std::int64_t begin = 0, end = 0;
  bool decay = true;
};

/// Neighbouring slices with the same decay as one range; padding behind a slice belongs to it (it is zero and stays
/// so).
std::vector<DecayRange> decay_ranges(const core::ParameterStore& parameters) {
  std::vector<DecayRange> ranges;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (ranges.empty() || ranges.back().decay != slice.decay) {
      if (!ranges.empty()) ranges.back().end = slice.offset;
      ranges.push_back({slice.offset, 0, slice.decay});
    }
  }
  if (!ranges.empty()) ranges.back().end = parameters.arena_size();
  return ranges;
}

}  // namespace

Adamw::Adamw(const AdamwSettings& settings, const core::ParameterStore& parameters, std::span<const OwnedRange> owned)
    : settings_(settings), parameters_(parameters) {
  const std::vector<DecayRange> ranges = decay_ranges(parameters);
  std::int64_t elements = 0;  // of the ranges before
  for (const OwnedRange& mine : owned) {
    for (const DecayRange& range : ranges) {
      const std::int64_t begin = std::max(mine.begin, range.begin), end = std::min(mine.begin + mine.size, range.end);
      if (begin >= end) continue;
      runs_.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin),
                       static_cast<std::size_t>(elements + begin - mine.begin), mine.gradient + (begin - mine.begin),
                       range.decay});
    }
    elements += mine.size;
  }
  first_ = core::Buffer<float>(elements);
  second_ = core::Buffer<float>(elements);
}

void Adamw::step(double learning_rate, std::int64_t update, double gradient_norm) {
  ops::AdamwStep step;
  step.learning_rate = learning_rate;
  step.beta1 = settings_.beta1;
  step.beta2 = settings_.beta2;
  step.epsilon = settings_.epsilon;
  step.bias_correction1 = 1.0 - std::pow(settings_.beta1, static_cast<double>(update));
  step.bias_correction2 = 1.0 - std::pow(settings_.beta2, static_cast<double>(update));
  const double limit = settings_.max_gradient_norm;
  // As torch.nn.utils.clip_grad_norm_: max_norm / (norm + 1e-6), at most 1.
  if (limit > 0) step.gradient_scale = static_cast<float>(std::min(1.0, limit / (gradient_norm + 1e-6)));
  for (const Run& run : runs_) {
    step.weight_decay = run.decay ? settings_.weight_decay : 0.0;
    ops::adamw_update(step, parameters_.values().subspan(run.begin, run.size), {run.gradient, run.size},
                      first_moments().subspan(run.moment, run.size), second_moments().subspan(run.moment, run.size));
  }
}

}  // namespace bert_hpc::train
