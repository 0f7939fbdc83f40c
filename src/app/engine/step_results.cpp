#include "app/engine/step_results.hpp"

#include "bert_hpc/core/error.hpp"

namespace bert_hpc::app {

std::span<float> StepResults::add(std::int64_t sample, std::int64_t width) {
  samples_.push_back(sample);
  kept_.resize(kept_.size() + static_cast<std::size_t>(width));
  return std::span(kept_).last(static_cast<std::size_t>(width));
}

void StepResults::gather(comm::Communicator& world, int root) {
  if (world.rank() != root) {
    const std::int64_t counts[] = {std::ssize(samples_), std::ssize(kept_)};
    world.send(std::as_bytes(std::span(counts)), root);
    world.send(std::as_bytes(std::span(samples_)), root);
    world.send(std::as_bytes(std::span(kept_)), root);
    samples_.clear();
    kept_.clear();
    return;
  }
  for (int peer = 0; peer < world.size(); ++peer) {
    if (peer == root) continue;
    std::int64_t counts[2] = {0, 0};
    world.receive(std::as_writable_bytes(std::span(counts)), peer);
    const std::size_t begin = samples_.size(), kept = kept_.size();
    samples_.resize(begin + static_cast<std::size_t>(counts[0]));
    kept_.resize(kept + static_cast<std::size_t>(counts[1]));
    world.receive(std::as_writable_bytes(std::span(samples_).subspan(begin)), peer);
    world.receive(std::as_writable_bytes(std::span(kept_).subspan(kept)), peer);
  }
}

void StepResults::deliver(std::int64_t first, const std::function<std::int64_t(std::int64_t sample)>& width,
                          const std::function<void(std::int64_t sample, std::span<const float>)>& take) {
  begins_.resize(samples_.size());
  std::size_t at = 0;
  for (const std::int64_t sample : samples_) {
    const std::int64_t index = sample - first;
    core::require(index >= 0 && index < std::ssize(samples_), "a step has the next samples of the data");
    begins_[static_cast<std::size_t>(index)] = at;
    at += static_cast<std::size_t>(width(sample));
  }
  for (const std::size_t begin : begins_) {
    take(first, std::span(kept_).subspan(begin, static_cast<std::size_t>(width(first))));
    ++first;
  }
  samples_.clear();
  kept_.clear();
}

}  // namespace bert_hpc::app
