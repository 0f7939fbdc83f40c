#include "bert_hpc/core/parameter_store.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {
namespace {

template <class T>
Buffer<T> take(const std::function<void*(std::size_t)>& memory, std::int64_t count) {
  if (!memory || count == 0) return Buffer<T>(count);
  return Buffer<T>::borrow(static_cast<T*>(memory(static_cast<std::size_t>(count) * sizeof(T))), count);
}

/// End of the slices at the begin that are `such`.
std::int64_t end_of(bool ParameterSpec::*such, const std::vector<ParameterSpec>& specs,
                    const std::vector<ParameterSlice>& slices, std::int64_t arena) {
  std::size_t count = 0;
  while (count < specs.size() && specs[count].*such) ++count;
  for (std::size_t i = count; i < specs.size(); ++i) {
    require(!(specs[i].*such), "parameter store: parameters that are looked up come first");
  }
  return count == 0 ? 0 : count < slices.size() ? slices[count].offset : arena;
}

}  // namespace

ParameterStore::ParameterStore(const std::vector<ParameterSpec>& specs, Arenas arenas, const Alignment& alignment,
                               const Memory& memory) {
  for (const ParameterSpec& spec : specs) {
    ParameterSlice slice{.name = spec.name,
                         .shape = spec.shape,
                         .decay = spec.decay,
                         .joined = spec.joined,
                         .copy_of = spec.copy_of,
                         .shard = spec.shard};
    slice.columns = spec.shape.empty() ? 1 : spec.shape.back();
    slice.rows = 1;
    for (std::size_t i = 0; i + 1 < spec.shape.size(); ++i) slice.rows *= spec.shape[i];
    slice.size = slice.rows * slice.columns;
    if (!spec.joined) arena_size_ = (arena_size_ + alignment.slice - 1) / alignment.slice * alignment.slice;
    slice.offset = arena_size_;
    arena_size_ += slice.size;
    if (slice.copy_of.empty()) parameters_ += slice.size;
    slices_.push_back(std::move(slice));
  }
  arena_size_ = (arena_size_ + alignment.arena - 1) / alignment.arena * alignment.arena;
  products_begin_ = end_of(&ParameterSpec::looked_up, specs, slices_, arena_size_);
  gradient_places_.resize(slices_.size());
  if (arenas == Arenas::none) return;
  values_ = take<float>(memory.values, arena_size_);
  if (arenas == Arenas::values) return;
  gradients_ = take<float>(memory.gradients, arena_size_);
  if (memory.known_zeros) {
    const std::int64_t marked = end_of(&ParameterSpec::few_rows, specs, slices_, arena_size_);
    marks_ = take<std::uint8_t>(memory.gradients, marked / floats_of_cache_line);
  }
  place_gradients(0, arena_size_, gradients_.data());
}

void ParameterStore::place_gradients(std::int64_t begin, std::int64_t end, float* gradients) {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    const std::int64_t offset = slices_[i].offset;
    if (offset >= begin && offset < end) gradient_places_[i] = gradients + (offset - begin);
  }
}

int ParameterStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (slices_[i].name == name) return static_cast<int>(i);
  }
  throw Error(ExitCode::internal, "parameter store: no parameter is named " + name);
}

}  // namespace bert_hpc::core
