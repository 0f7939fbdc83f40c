// Observer of attention. A pass has one or none (StepContext::attention_observer); attention sublayers call it with
// their queries and keys. A loss of attention scores reads them and adds to their gradients.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/ops/attention.hpp"

namespace bert_hpc::layers {

struct StepContext;

/// Attention of a pass, on this rank.
struct ObservedAttention {
  std::int64_t block = 0;      ///< of the model
  std::int64_t all_heads = 0;  ///< of the tensor group; `inputs` has those of this rank
  const ops::AttentionInputs& inputs;
};

class AttentionObserver {
 public:
  virtual ~AttentionObserver() = default;
  /// After queries and keys are computed for the first time in a step.
  virtual void forward(const ObservedAttention& attention, const StepContext& context) = 0;
  /// d_q and d_k, shaped as queries and keys, have the gradients of all that follows; the observer may add to them.
  virtual void backward(const ObservedAttention& attention, const StepContext& context, const core::Matrix& d_q,
                        const core::Matrix& d_k) = 0;
};

}  // namespace bert_hpc::layers
