#include "bert_hpc/layers/linear_weight.hpp"

namespace bert_hpc::layers {

LinearWeight linear_weight(const core::ParameterStore& parameters, int slice, bool selected, std::int64_t joined) {
  const Tensor<const float> first = parameters.value(slice);
  return {.slice = slice,
          .name = parameters.slices()[static_cast<std::size_t>(slice)].name,
          .weights = {first.data, joined * first.rows, first.columns},
          .selected = selected};
}

}  // namespace bert_hpc::layers
