#include "bert_hpc/core/parameter_store.hpp"

#include <algorithm>

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

template <class T>
Buffer<T> take(const std::function<void*(std::size_t)>& memory, std::int64_t count) {
  if (!memory || count == 0) return Buffer<T>(count);
  return Buffer<T>::borrow(static_cast<T*>(memory(static_cast<std::size_t>(count) * sizeof(T))), count);
}

std::int64_t aligned(std::int64_t elements, std::int64_t alignment) {
  return (elements + alignment - 1) / alignment * alignment;
}

/// Trainable ones first. Of the frozen ones those that are looked up come last, next to no parameter of a product.
std::vector<ParameterSpec> in_arena_order(std::vector<ParameterSpec> specs) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    require(!specs[i].joined || (i > 0 && specs[i].trainable == specs[i - 1].trainable),
            "parameter store: of joined parameters either all are trainable or none is");
  }
  const auto frozen =
      std::stable_partition(specs.begin(), specs.end(), [](const ParameterSpec& spec) { return spec.trainable; });
  std::stable_partition(frozen, specs.end(), [](const ParameterSpec& spec) { return !spec.lookup_only; });
  return specs;
}

/// End of the trainable slices at the begin that are `such`.
std::int64_t end_of(bool ParameterSpec::*such, const std::vector<ParameterSpec>& specs,
                    const std::vector<ParameterSlice>& slices, std::int64_t trainable) {
  std::size_t count = 0;
  while (count < specs.size() && specs[count].trainable && specs[count].*such) ++count;
  for (std::size_t i = count; i < specs.size() && specs[i].trainable; ++i) {
    require(!(specs[i].*such), "parameter store: parameters that are looked up come first");
  }
  return count == 0 ? 0 : count < slices.size() ? slices[count].offset : trainable;
}

/// Size of a range of gradients in floats, rounded up to a cache line.
std::int64_t floats_of(const ParameterStore::GradientRange& range) {
  const std::int64_t elements = range.end - range.begin;
  if (range.type == DataType::fp32) return elements;
  return (elements / 2 + floats_of_cache_line) / floats_of_cache_line * floats_of_cache_line;
}

}  // namespace

ParameterStore::ParameterStore(const std::vector<ParameterSpec>& given, Arenas arenas, const Alignment& alignment,
                               const Memory& memory) {
  const std::vector<ParameterSpec> specs = in_arena_order(given);
  for (const ParameterSpec& spec : specs) {
    const bool first_frozen = !spec.trainable && (slices_.empty() || slices_.back().trainable);
    if (first_frozen) arena_size_ = trainable_size_ = aligned(arena_size_, alignment.arena);
    ParameterSlice slice{.name = spec.name,
                         .shape = spec.shape,
                         .decay = spec.decay,
                         .joined = spec.joined,
                         .copy_of = spec.copy_of,
                         .shard = spec.shard,
                         .one_product = spec.one_product,
                         .initial = spec.initial,
                         .deviation = spec.deviation,
                         .cutoff = spec.cutoff,
                         .zero_row = spec.zero_row,
                         .trainable = spec.trainable,
                         .adapter = spec.adapter};
    slice.columns = spec.shape.empty() ? 1 : spec.shape.back();
    slice.rows = 1;
    for (std::size_t i = 0; i + 1 < spec.shape.size(); ++i) slice.rows *= spec.shape[i];
    slice.size = slice.rows * slice.columns;
    if (!spec.joined) arena_size_ = aligned(arena_size_, alignment.slice);
    slice.offset = arena_size_;
    arena_size_ += slice.size;
    if (slice.copy_of.empty()) parameters_ += slice.size;
    if (slice.copy_of.empty() && slice.trainable) trainable_parameters_ += slice.size;
    slices_.push_back(std::move(slice));
  }
  arena_size_ = aligned(arena_size_, alignment.arena);
  if (slices_.empty() || slices_.back().trainable) trainable_size_ = arena_size_;
  products_begin_ = end_of(&ParameterSpec::lookup_only, specs, slices_, trainable_size_);
  products_end_ = arena_size_;
  for (std::size_t i = specs.size(); i-- > 0 && !specs[i].trainable && specs[i].lookup_only;) {
    products_end_ = slices_[i].offset;
  }
  product_gradients_ = memory.product_gradients;
  lay_out_gradients();
  if (arenas == Arenas::none) return;
  values_ = take<float>(memory.values, arena_size_);
  if (arenas == Arenas::values) return;
  require(product_gradients_ == DataType::fp32 || !memory.gradients,
          "parameter store: memory of a group holds gradients in fp32");
  gradients_ = take<float>(memory.gradients, gradient_floats_);
  if (memory.zero_lines) {
    const std::int64_t marked = end_of(&ParameterSpec::row_sparse, specs, slices_, trainable_size_);
    marks_ = take<std::uint8_t>(memory.gradients, marked / floats_of_cache_line);
  }
  auto* at = reinterpret_cast<std::byte*>(gradients_.data());
  for (GradientRange& range : gradient_ranges_) {
    range.data = at;
    at += floats_of(range) * static_cast<std::int64_t>(sizeof(float));
    for (std::size_t i = 0; i < slices_.size(); ++i) {
      const std::int64_t offset = slices_[i].offset;
      if (offset < range.begin || offset >= range.end) continue;
      gradient_addresses_[i] = range.data + (offset - range.begin) * bytes_of(range.type);
    }
  }
}

void ParameterStore::lay_out_gradients() {
  gradient_addresses_.resize(slices_.size());
  for (const ParameterSlice& slice : slices_) {
    if (!slice.trainable) break;
    const DataType type = gradient_type(slice);
    if (!gradient_ranges_.empty() && gradient_ranges_.back().type == type) continue;
    require(!slice.joined, "parameter store: joined parameters have gradients of one type");
    if (!gradient_ranges_.empty()) gradient_ranges_.back().end = slice.offset;
    gradient_ranges_.push_back({slice.offset, 0, type});
  }
  if (!gradient_ranges_.empty()) gradient_ranges_.back().end = trainable_size_;
  for (const GradientRange& range : gradient_ranges_) gradient_floats_ += floats_of(range);
}

void ParameterStore::assign_gradients(std::int64_t begin, std::int64_t end, float* gradients) {
  require(product_gradients_ == DataType::fp32, "parameter store: gradients in assigned memory are stored in fp32");
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const std::int64_t offset = slices_[i].offset;
    if (offset >= begin && offset < end) gradient_addresses_[i] = gradients + (offset - begin);
  }
}

Tensor<const float> ParameterStore::value_of_ids(int slice, const std::int32_t* ids, std::int64_t unique) const {
  const ParameterSlice& s = slices_[static_cast<std::size_t>(slice)];
  if (unique == 0) return value(slice);
  if (postponed_ != nullptr && s.offset < marked()) postponed_->finish({s.offset, s.columns, ids, unique});
  return view(values_.data(), slice);
}

Tensor<const float> ParameterStore::value_of_first_rows(int slice, std::int64_t count) const {
  const ParameterSlice& s = slices_[static_cast<std::size_t>(slice)];
  if (postponed_ != nullptr && s.offset < marked()) postponed_->finish({s.offset, s.columns, nullptr, count});
  return view(values_.data(), slice);
}

int ParameterStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (slices_[i].name == name) return static_cast<int>(i);
  }
  throw Error(ExitCode::internal, "parameter store: no parameter is named " + name);
}

}  // namespace bert_hpc::core
