// What the states of an optimizer take.
#include <algorithm>

#include "bert_hpc/ops/update_rule.hpp"

namespace bert_hpc::ops {

bool have_blocks(std::span<const StateTensor> states) {
  return std::any_of(states.begin(), states.end(), [](const StateTensor& state) { return state.in_blocks(); });
}

std::int64_t bytes_of_states(std::span<const StateTensor> states, std::int64_t elements, std::int64_t in_blocks) {
  constexpr std::int64_t float_bytes = sizeof(float);
  std::int64_t bytes = 0;
  for (const StateTensor& state : states) {
    const std::int64_t coded = state.in_blocks() ? in_blocks : 0;
    bytes += (elements - coded) * float_bytes + coded + core::state_blocks::count(coded) * float_bytes;
  }
  return bytes;
}

double bytes_per_parameter(std::span<const StateTensor> states) {
  constexpr std::int64_t elements = core::state_blocks::least_elements;
  return static_cast<double>(bytes_of_states(states, elements, elements)) / static_cast<double>(elements);
}

}  // namespace bert_hpc::ops
