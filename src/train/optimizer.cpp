#include "bert_hpc/train/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/flat.hpp"
#include "bert_hpc/ops/gradient_squares.hpp"

namespace bert_hpc::train {
namespace {

template <class T>
std::span<T> part(const core::Buffer<T>& buffer, std::size_t begin, std::size_t size) {
  return {buffer.data() + begin, size};
}

bool owns_all_trainable(const core::ParameterStore& parameters, std::span<const OwnedRange> owned) {
  std::int64_t elements = 0;
  for (const OwnedRange& range : owned) elements += range.size;
  return elements == parameters.trainable_size();
}

std::unique_ptr<ops::UpdateRule> make_rule(const ops::OptimizerKind& kind, std::vector<double> values) {
  core::require(kind.states.size() <= ops::max_states, "optimizer: more states than an update takes");
  if (values.empty()) {
    for (const core::NumberSetting& setting : kind.input.settings) values.push_back(setting.value);
  }
  core::require(values.size() == kind.input.settings.size(), "optimizer: not one value for each of its keys");
  return kind.make(values);
}

}  // namespace

Optimizer::Optimizer(const OptimizerSettings& settings, core::ParameterStore& parameters,
                     std::span<const OwnedRange> owned, bool offload, ops::RoundedWeights* copies,
                     std::span<const ArenaRange> replaced, const std::optional<TensorNormScope>& norms)
    : kind_(ops::optimizer_kind(settings.name)),
      rule_(make_rule(kind_, settings.values)),
      max_gradient_norm_(settings.max_gradient_norm),
      coupled_decay_(settings.coupled_decay),
      parameters_(parameters),
      copies_(!offload && owns_all_trainable(parameters, owned) ? copies : nullptr),
      offload_(offload),
      norms_(rule_->needs_tensor_norms() ? norms : std::nullopt),
      states_(kind_.states) {
  core::require(norms_ || !rule_->needs_tensor_norms(), "optimizer: this rule needs norms of tensors");
  cut(owned, replaced);
  const core::MemoryKind memory = offload ? core::MemoryKind::host : core::MemoryKind::device;
  states_.allocate(memory);
  if (offload) {
    const std::int64_t elements = states_.elements();
    masters_ = core::Buffer<float>(elements, memory);
    gradients_ = core::Buffer<float>(elements, memory);
    return;
  }
  if (settings.postpones && owns_all_trainable(parameters, owned)) postpone_updates();
  std::vector<ops::UpdateRange> runs;
  for (Range& range : ranges_) {
    range.first_run = runs.size();
    for (const Run& run : range.runs) {
      if (!run.postponed) runs.push_back(resident(run));
    }
    range.last_run = runs.size();
  }
  resident_ = copies_ == nullptr ? ops::UpdateRanges(runs) : ops::UpdateRanges(runs, copies_->type());
  if (postponed_ != nullptr) parameters_.set_postponed(postponed_.get());  // last: the destructor takes it back
}

Optimizer::~Optimizer() {
  if (postponed_ == nullptr) return;
  postponed_->finish();
  parameters_.set_postponed(nullptr);
}

/// Updates of rows that no batch reads wait. No other rank reads what this one updates.
void Optimizer::postpone_updates() {
  if (parameters_.marked() == 0 || coupled_decay_) return;
  std::vector<ops::UpdateRange> ranges;
  std::vector<Run*> runs;
  for (Range& range : ranges_) {
    for (Run& run : range.runs) {
      if (run.marks == nullptr) continue;
      ranges.push_back(resident(run));
      runs.push_back(&run);
    }
  }
  postponed_ = rule_->postpone(ranges);
  if (postponed_ == nullptr) return;
  for (Run* const run : runs) run->postponed = true;
}

void Optimizer::fetch(std::size_t range) {
  Range& own = ranges_[range];
  const auto size = static_cast<std::size_t>(own.owned.size);
  ops::copy_to_host({own.owned.gradient, size}, part(gradients_, own.first, size));
  own.fetched = true;
}

ops::UpdateRange Optimizer::resident(const Run& run) const {
  const auto begin = static_cast<std::int64_t>(run.begin);
  const bool copied = copies_ != nullptr && begin >= copies_->begin();
  ops::UpdateRange range{.value = parameters_.change_values().data() + run.begin,
                         .gradient = run.gradient,
                         .copy = copied ? copies_->data() + (begin - copies_->begin()) : nullptr,
                         .marks = run.marks,
                         .size = static_cast<std::int64_t>(run.size),
                         .decay = run.decay,
                         .clears = !run.replaced,
                         .narrow_gradient = run.narrow_gradient,
                         .tensor = run.tensor,
                         .first_block = run.first_block,
                         .phase = run.phase,
                         .begin = begin};
  for (std::size_t s = 0; s < kind_.states.size(); ++s) {
    if (run.states.in_blocks) {
      range.blocks[s] = blocks_of(run, s);
    } else {
      range.states[s] = states_.numbers(s).data() + run.states.index;
    }
  }
  return range;
}

ops::HostRange Optimizer::on_host(const Run& run) const {
  ops::HostRange range{.value = part(masters_, run.owned, run.size),
                       .gradient = part(gradients_, run.owned, run.size),
                       .decay = run.decay,
                       .tensor = run.tensor,
                       .first_block = run.first_block,
                       .phase = run.phase};
  for (std::size_t s = 0; s < kind_.states.size(); ++s) {
    if (run.states.in_blocks) {
      range.blocks[s] = blocks_of(run, s);
    } else {
      range.states[s] = states_.numbers(s).subspan(static_cast<std::size_t>(run.states.index), run.size);
    }
  }
  return range;
}

ops::StateBlocks Optimizer::blocks_of(const Run& run, std::size_t state) const {
  return {states_.codes(state).data() + run.states.index,
          states_.scales(state).data() + run.states.index / ops::dynamic8::block};
}

/// Gradients and, the first time, parameters.
void Optimizer::fetch_all() {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (!ranges_[i].fetched) fetch(i);
  }
  if (has_masters_) return;
  for (const Range& range : ranges_) {
    const auto begin = static_cast<std::size_t>(range.owned.begin), size = static_cast<std::size_t>(range.owned.size);
    ops::copy_to_host(parameters_.values().subspan(begin, size), part(masters_, range.first, size));
  }
  has_masters_ = true;
}

void Optimizer::update_offloaded(std::size_t range, const ops::UpdateStep& step) {
  Range& own = ranges_[range];
  if (!own.fetched) fetch(range);
  own.fetched = false;
  for (const Run& run : own.runs) {
    const std::span<float> values = parameters_.change_values().subspan(run.begin, run.size);
    const ops::HostRange host = on_host(run);
    if (!has_masters_) ops::copy_to_host(values, host.value);
    rule_->update_on_host(step, host);
    ops::copy_to_device(host.value, values);
    clear(run);
  }
}

void Optimizer::find_tensor_scales(ops::UpdateStep& step) {
  if (!norms_) return;
  const auto counted = static_cast<std::size_t>(2 * norms_->blocks());
  std::span<double> sums(host_sums_);
  if (offload_) {
    fetch_all();
    std::fill(host_sums_.begin(), host_sums_.end(), 0.0);
    for (const Range& range : ranges_) {
      for (const Run& run : range.runs) rule_->begin_on_host(step, on_host(run), host_sums_.data());
    }
  } else {
    core::fill_on_device(accumulators_.device(), 0, static_cast<std::size_t>(accumulators_.size()) * sizeof(double));
    rule_->begin(step, resident_, accumulators_.device());
    sums = accumulators_.to_host(accumulators_.size());
  }
  const std::vector<double> totals = tensor_sums(*norms_, sums.first(counted));
  float* const scales = offload_ ? host_tensor_scales_.data() : tensor_scales_.host();
  std::fill_n(scales, norms_->tensors(), 1.0f);
  for (const TensorNormScope::Slice& slice : norms_->slices) {
    const auto t = static_cast<std::size_t>(slice.tensor);
    scales[t] = rule_->tensor_scale({.value_squares = totals[2 * t],
                                     .update_squares = totals[2 * t + 1],
                                     .elements = norms_->elements[t],
                                     .decay = slice.decay});
  }
  if (!offload_) tensor_scales_.to_device(tensor_scales_.size());
  step.tensor_scales = offload_ ? host_tensor_scales_.data() : tensor_scales_.device();
}

void Optimizer::clear(const Run& run) {
  if (run.narrow_gradient == nullptr) return ops::set_zero({run.gradient, run.size}, {run.marks});
  core::fill_on_device(run.narrow_gradient, 0, run.size * sizeof(core::Bf16));
}

void Optimizer::clear_replaced() {
  for (const Range& range : ranges_) {
    for (const Run& run : range.runs) {
      if (run.replaced) clear(run);
    }
  }
}

void Optimizer::discard() {
  for (Range& range : ranges_) {
    range.fetched = false;
    for (const Run& run : range.runs) clear(run);
  }
}

void Optimizer::step(double learning_rate, std::int64_t update, double gradient_norm,
                     const std::function<void(std::size_t)>& updated, double scale) {
  ops::UpdateStep step{.learning_rate = learning_rate,
                       .number = update,
                       .gradient_scale = ops::clipping_factor(gradient_norm, max_gradient_norm_, scale),
                       .coupled_decay = coupled_decay_};
  parameters_.note_change();
  find_tensor_scales(step);
  if (postponed_ != nullptr) postponed_->update(step);
  // One kernel for everything, unless a caller waits for each range.
  if (!offload_ && !updated) rule_->update(step, resident_, 0, resident_.size());
  for (std::size_t i = 0; (offload_ || updated) && i < ranges_.size(); ++i) {
    if (!offload_) {
      rule_->update(step, resident_, ranges_[i].first_run, ranges_[i].last_run);
    } else {
      update_offloaded(i, step);
    }
    if (updated) updated(i);
  }
  has_masters_ = true;
  if (copies_ != nullptr) copies_->written();
}

void Optimizer::step_on_device(double learning_rate, std::int64_t update, const float* factor) {
  core::require(steps_on_device(), "optimizer: this update needs to know norms on the host");
  const ops::UpdateStep step{
      .learning_rate = learning_rate, .number = update, .coupled_decay = coupled_decay_, .device_scale = factor};
  parameters_.note_change();
  if (postponed_ != nullptr) postponed_->update(step);
  rule_->update(step, resident_, 0, resident_.size());
  if (copies_ != nullptr) copies_->written();
}

namespace {

/// Elements with the same update.
struct LikeRange {
  std::int64_t begin = 0, end = 0;
  bool decay = true, replaced = false, in_blocks = false;
  std::int64_t slice = -1;  // where it is one slice alone
};

/// Neighbouring trainable slices with the same update as one range, with or without copies; padding behind a slice
/// belongs to it (it is zero and stays so). `separate`: each slice is a range, without its padding. `blocks`: states of
/// large tensors are kept in blocks, which begin with their ranges.
std::vector<LikeRange> like_ranges(const core::ParameterStore& parameters, std::span<const ArenaRange> replaced,
                                   bool separate, bool blocks) {
  std::vector<LikeRange> ranges;
  for (const core::ParameterSlice& slice : parameters.slices()) {
    if (!slice.trainable) break;
    const bool again = std::any_of(replaced.begin(), replaced.end(), [&](const ArenaRange& range) {
      return range.begin <= slice.offset && slice.offset + slice.size <= range.end;
    });
    const auto number = static_cast<std::int64_t>(&slice - parameters.slices().data());
    if (separate) {
      ranges.push_back({slice.offset, slice.offset + slice.size, slice.decay, again, false, number});
      continue;
    }
    const bool in_blocks = blocks && is_kept_in_blocks(slice);
    const bool like = !ranges.empty() && ranges.back().decay == slice.decay && ranges.back().replaced == again &&
                      ranges.back().in_blocks == in_blocks;
    if (!like || slice.offset == parameters.products_begin()) {
      if (!ranges.empty()) ranges.back().end = slice.offset;
      ranges.push_back({slice.offset, 0, slice.decay, again, in_blocks});
    }
  }
  if (!ranges.empty() && !separate) ranges.back().end = parameters.trainable_size();
  return ranges;
}

}  // namespace

void Optimizer::cut(std::span<const OwnedRange> owned, std::span<const ArenaRange> replaced) {
  const bool blocks = ops::have_blocks(kind_.states);
  core::require(!blocks || !norms_, "optimizer: a rule with tensor norms keeps no blocks");
  const std::vector<LikeRange> ranges = like_ranges(parameters_, replaced, norms_.has_value(), blocks);
  std::int64_t elements = 0, unused = norms_ ? norms_->blocks() : 0;
  for (const OwnedRange& mine : owned) {
    Range& own = ranges_.emplace_back();
    own.first = static_cast<std::size_t>(elements);
    own.owned = mine;
    const OptimizerStates::Position whole =
        blocks ? OptimizerStates::Position() : states_.add(mine.begin, mine.size, false);
    for (const LikeRange& range : ranges) {
      const std::int64_t begin = std::max(mine.begin, range.begin), end = std::min(mine.begin + mine.size, range.end);
      if (begin >= end) continue;
      const std::int64_t at = begin - mine.begin;
      const bool narrow = mine.narrow_gradient != nullptr;
      own.runs.push_back({.begin = static_cast<std::size_t>(begin),
                          .size = static_cast<std::size_t>(end - begin),
                          .owned = static_cast<std::size_t>(elements + at),
                          .states = blocks ? states_.add(begin, end - begin, range.in_blocks)
                                           : OptimizerStates::Position{false, whole.index + at},
                          .gradient = narrow ? nullptr : mine.gradient + at,
                          .decay = range.decay,
                          .marks = mine.marks == nullptr ? nullptr : mine.marks + at / ops::TouchedRows::line,
                          .replaced = range.replaced && !offload_ && mine.marks == nullptr,
                          .narrow_gradient = narrow ? mine.narrow_gradient + at : nullptr});
      if (norms_) assign_sum_blocks(own.runs.back(), range.slice, unused);
    }
    elements += mine.size;
  }
  if (!norms_) return;
  if (offload_) {
    host_sums_.resize(static_cast<std::size_t>(2 * unused));
    host_tensor_scales_.resize(static_cast<std::size_t>(norms_->tensors()));
  } else {
    accumulators_ = core::MirroredArray<double>(2 * unused);
    tensor_scales_ = core::MirroredArray<float>(norms_->tensors());
  }
}

/// Sums that do not count get blocks from `unused` on.
void Optimizer::assign_sum_blocks(Run& run, std::int64_t slice, std::int64_t& unused) const {
  const TensorNormScope::Slice& scope = norms_->slices[static_cast<std::size_t>(slice)];
  const std::int64_t offset = parameters_.slices()[static_cast<std::size_t>(slice)].offset - scope.group_begin;
  const std::int64_t from = static_cast<std::int64_t>(run.begin) - scope.group_begin;
  run.tensor = scope.tensor;
  run.phase = from % ops::norm_block;
  run.first_block =
      norms_->first_block[static_cast<std::size_t>(scope.tensor)] + from / ops::norm_block - offset / ops::norm_block;
  if (scope.counts) return;
  run.first_block = unused;
  unused += ops::blocks_touched(run.phase, static_cast<std::int64_t>(run.size));
}

}  // namespace bert_hpc::train
