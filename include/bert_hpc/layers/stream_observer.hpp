// Observer of the residual stream of a model. A pass has one or none (StepContext::observer); stages call it at the
// edges between sublayers. A loss of hidden states reads them and adds to their gradients.
//
// Edge i is in front of sublayer i of the model; edge 0 is behind the input, and the last one in front of the head. At
// an edge lies the residual: y in post-norm models, the sum z in pre-norm models but for their last edge, which has y.
// Each edge is observed once, on the rank that computes what lies before it.
#pragma once

#include <cstdint>

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::layers {

class Linear;
class TensorGroup;
struct Engine;
struct StepContext;

/// An edge of a pass.
struct StreamEdge {
  std::int64_t number = 0;
  const Engine& engine;
  const TensorGroup& group;            ///< that has the rows of the state
  const Linear* projection = nullptr;  ///< beside the stream, for the observer alone; null: none
};

class StreamObserver {
 public:
  virtual ~StreamObserver() = default;
  /// After the forward pass up to an edge. state (this rank's piece of the rows there, columns); it may change later.
  virtual void forward(const StreamEdge& edge, const StepContext& context, core::ConstMatrix state) = 0;
  /// Before the backward pass of the layer in front of an edge. d_state, shaped as the state, is the gradient of all
  /// behind it; the observer may add to it, and adds to the gradients of the projection: on each rank of the group
  /// those of all rows.
  virtual void backward(const StreamEdge& edge, const StepContext& context, core::Matrix d_state) = 0;
};

}  // namespace bert_hpc::layers
