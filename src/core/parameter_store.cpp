#include "bert_hpc/core/parameter_store.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::core {

ParameterStore::ParameterStore(const std::vector<ParameterSpec>& specs, Arenas arenas, std::int64_t granularity) {
  constexpr std::int64_t alignment = 16;  // floats: one cache line
  for (const ParameterSpec& spec : specs) {
    ParameterSlice slice{.name = spec.name, .shape = spec.shape, .decay = spec.decay, .copy_of = spec.copy_of};
    slice.columns = spec.shape.empty() ? 1 : spec.shape.back();
    slice.rows = 1;
    for (std::size_t i = 0; i + 1 < spec.shape.size(); ++i) slice.rows *= spec.shape[i];
    slice.size = slice.rows * slice.columns;
    if (!spec.joined) arena_size_ = (arena_size_ + alignment - 1) / alignment * alignment;
    slice.offset = arena_size_;
    arena_size_ += slice.size;
    if (slice.copy_of.empty()) parameters_ += slice.size;
    slices_.push_back(std::move(slice));
  }
  arena_size_ = (arena_size_ + granularity - 1) / granularity * granularity;
  if (arenas == Arenas::none) return;
  values_ = Buffer<float>(arena_size_);
  if (arenas != Arenas::values) gradients_ = Buffer<float>(arena_size_);
  if (arenas == Arenas::training) {
    first_moments_ = Buffer<float>(arena_size_);
    second_moments_ = Buffer<float>(arena_size_);
  }
}

int ParameterStore::find(const std::string& name) const {
  for (std::size_t i = 0; i < slices_.size(); ++i) {
    if (slices_[i].name == name) return static_cast<int>(i);
  }
  throw Error(ExitCode::internal, "parameter store: no parameter is named " + name);
}

}  // namespace bert_hpc::core
