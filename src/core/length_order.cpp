#include "bert_hpc/core/length_order.hpp"

#include <algorithm>
#include <numeric>

namespace bert_hpc::core {

LengthOrder order_by_length(const MicroBatch& batch, std::int32_t* first, std::int32_t* length, std::int32_t* live) {
  const std::int32_t* const offsets = batch.tokens.offsets;
  const auto length_of = [&](std::int32_t b) {
    return batch.lengths != nullptr ? batch.lengths[b] : offsets[b + 1] - offsets[b];
  };
  std::iota(first, first + batch.sequences, 0);
  std::sort(first, first + batch.sequences, [&](std::int32_t a, std::int32_t b) {
    return length_of(a) != length_of(b) ? length_of(a) > length_of(b) : a < b;
  });
  LengthOrder order{.first = first, .length = length, .live = live};
  for (std::int64_t i = 0; i < batch.sequences; ++i) {
    length[i] = length_of(first[i]);
    first[i] = offsets[first[i]];
    order.tokens += length[i];
  }
  order.steps = batch.sequences > 0 ? length[0] : 0;
  std::int64_t longer = batch.sequences;
  for (std::int64_t t = 0; t < order.steps; ++t) {
    while (length[longer - 1] <= t) --longer;
    live[t] = static_cast<std::int32_t>(longer);
  }
  return order;
}

}  // namespace bert_hpc::core
