#include "bert_hpc/train/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/gradient_squares.hpp"
#include "bert_hpc/ops/optimizer_update.hpp"

namespace bert_hpc::train {
namespace {

/// Elements that are updated alike.
struct LikeRange {
  std::int64_t begin = 0, end = 0;
  bool decay = true, replaced = false;
};

/// Neighbouring slices that are updated alike as one range, with or without copies; padding behind a slice belongs to
/// it (it is zero and stays so).
std::vector<LikeRange> like_ranges(const core::ParameterStore& parameters, std::span<const ArenaRange> replaced) {
  std::vector<LikeRange> ranges;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    const bool again = std::any_of(replaced.begin(), replaced.end(), [&](const ArenaRange& range) {
      return range.begin <= slice.offset && slice.offset + slice.size <= range.end;
    });
    const bool like = !ranges.empty() && ranges.back().decay == slice.decay && ranges.back().replaced == again;
    if (!like || slice.offset == parameters.products_begin()) {
      if (!ranges.empty()) ranges.back().end = slice.offset;
      ranges.push_back({slice.offset, 0, slice.decay, again});
    }
  }
  if (!ranges.empty()) ranges.back().end = parameters.arena_size();
  return ranges;
}

std::span<float> part(const core::Buffer<float>& buffer, std::size_t begin, std::size_t size) {
  return {buffer.data() + begin, size};
}

bool owns_everything(const core::ParameterStore& parameters, std::span<const OwnedRange> owned) {
  std::int64_t elements = 0;
  for (const OwnedRange& range : owned) elements += range.size;
  return elements == parameters.arena_size();
}

}  // namespace

Adamw::Adamw(const AdamwSettings& settings, core::ParameterStore& parameters, std::span<const OwnedRange> owned,
             bool offload, ops::RoundedWeights* copies, std::span<const ArenaRange> replaced)
    : settings_(settings),
      parameters_(parameters),
      copies_(!offload && owns_everything(parameters, owned) ? copies : nullptr),
      offload_(offload) {
  const std::vector<LikeRange> ranges = like_ranges(parameters, replaced);
  std::int64_t elements = 0;  // of the ranges before
  for (const OwnedRange& mine : owned) {
    Range& own = ranges_.emplace_back();
    own.state = static_cast<std::size_t>(elements);
    own.owned = mine;
    for (const LikeRange& range : ranges) {
      const std::int64_t begin = std::max(mine.begin, range.begin), end = std::min(mine.begin + mine.size, range.end);
      if (begin >= end) continue;
      const std::int64_t at = begin - mine.begin;
      const bool narrow = mine.narrow_gradient != nullptr;
      own.runs.push_back({.begin = static_cast<std::size_t>(begin),
                          .size = static_cast<std::size_t>(end - begin),
                          .state = static_cast<std::size_t>(elements + at),
                          .gradient = narrow ? nullptr : mine.gradient + at,
                          .decay = range.decay,
                          .marks = mine.marks == nullptr ? nullptr : mine.marks + at / ops::GradientMarks::line,
                          .replaced = range.replaced && !offload && mine.marks == nullptr,
                          .narrow_gradient = narrow ? mine.narrow_gradient + at : nullptr});
    }
    elements += mine.size;
  }
  std::size_t runs = 0;
  for (Range& range : ranges_) {
    range.first_run = runs;
    runs += range.runs.size();
  }
  const core::MemoryKind states = offload ? core::MemoryKind::host : core::MemoryKind::device;
  first_ = core::Buffer<float>(elements, states);
  second_ = core::Buffer<float>(elements, states);
  if (!offload) {
    std::vector<ops::AdamwRange> resident_runs;
    for (const Range& range : ranges_) {
      for (const Run& run : range.runs) resident_runs.push_back(resident(run));
    }
    resident_ = copies_ == nullptr ? ops::AdamwRanges(resident_runs) : ops::AdamwRanges(resident_runs, copies_->type());
    return;
  }
  masters_ = core::Buffer<float>(elements, states);
  gradients_ = core::Buffer<float>(elements, states);
}

void Adamw::fetch(std::size_t range) {
  Range& own = ranges_[range];
  const auto size = static_cast<std::size_t>(own.owned.size);
  ops::copy_to_host({own.owned.gradient, size}, part(gradients_, own.state, size));
  own.fetched = true;
}

ops::AdamwRange Adamw::resident(const Run& run) const {
  const auto begin = static_cast<std::int64_t>(run.begin);
  const bool copied = copies_ != nullptr && begin >= copies_->begin();
  return {.value = parameters_.change_values().data() + run.begin,
          .gradient = run.gradient,
          .first_moment = first_.data() + run.state,
          .second_moment = second_.data() + run.state,
          .copy = copied ? copies_->data() + (begin - copies_->begin()) : nullptr,
          .marks = run.marks,
          .size = static_cast<std::int64_t>(run.size),
          .decay = run.decay,
          .clears = !run.replaced,
          .narrow_gradient = run.narrow_gradient};
}

void Adamw::update_on_host(const Run& run, const ops::AdamwStep& step) {
  const std::span<float> first = part(first_, run.state, run.size), second = part(second_, run.state, run.size);
  const std::span<float> values = parameters_.change_values().subspan(run.begin, run.size);
  const std::span<float> masters = part(masters_, run.state, run.size);
  if (!has_masters_) ops::copy_to_host(values, masters);
  ops::adamw_update_on_host(step, masters, part(gradients_, run.state, run.size), first, second);
  ops::copy_to_device(masters, values);
  ops::set_zero({run.gradient, run.size}, {run.marks});
}

void Adamw::update_offloaded(std::size_t range, ops::AdamwStep step) {
  Range& own = ranges_[range];
  if (!own.fetched) fetch(range);
  own.fetched = false;
  const double decay = step.weight_decay;
  for (const Run& run : own.runs) {
    step.weight_decay = run.decay ? decay : 0.0;
    update_on_host(run, step);
  }
}

void Adamw::clear(const Run& run) {
  if (run.narrow_gradient == nullptr) return ops::set_zero({run.gradient, run.size}, {run.marks});
  core::fill_on_device(run.narrow_gradient, 0, run.size * sizeof(core::Bf16));
}

void Adamw::clear_replaced() {
  for (const Range& range : ranges_) {
    for (const Run& run : range.runs) {
      if (run.replaced) clear(run);
    }
  }
}

void Adamw::discard() {
  for (Range& range : ranges_) {
    range.fetched = false;
    for (const Run& run : range.runs) clear(run);
  }
}

ops::AdamwStep Adamw::constants(double learning_rate, std::int64_t update) const {
  ops::AdamwStep step;
  step.learning_rate = learning_rate;
  step.beta1 = settings_.beta1;
  step.beta2 = settings_.beta2;
  step.epsilon = settings_.epsilon;
  step.bias_correction1 = 1.0 - std::pow(settings_.beta1, static_cast<double>(update));
  step.bias_correction2 = 1.0 - std::pow(settings_.beta2, static_cast<double>(update));
  step.weight_decay = settings_.weight_decay;
  return step;
}

void Adamw::step(double learning_rate, std::int64_t update, double gradient_norm,
                 const std::function<void(std::size_t)>& updated, double scale) {
  ops::AdamwStep step = constants(learning_rate, update);
  step.gradient_scale = ops::clipping_factor(gradient_norm, settings_.max_gradient_norm, scale);
  parameters_.change_values();
  // One kernel for everything, unless somebody waits for each range.
  if (!offload_ && !updated) resident_.update(step, 0, resident_.size());
  for (std::size_t i = 0; (offload_ || updated) && i < ranges_.size(); ++i) {
    if (!offload_) {
      resident_.update(step, ranges_[i].first_run, ranges_[i].first_run + ranges_[i].runs.size());
    } else {
      update_offloaded(i, step);
    }
    if (updated) updated(i);
  }
  has_masters_ = true;
  if (copies_ != nullptr) copies_->written();
}

void Adamw::step_on_device(double learning_rate, std::int64_t update, const float* factor) {
  core::require(!offload_, "optimizer: an update in host memory needs to know the norm");
  ops::AdamwStep step = constants(learning_rate, update);
  step.device_scale = factor;
  parameters_.change_values();
  resident_.update(step, 0, resident_.size());
  if (copies_ != nullptr) copies_->written();
}

}  // namespace bert_hpc::train
