// The input of a model: makes the first values of the residual stream (layers/sublayer.hpp) of a micro-batch. A plan
// names its kind, which alone knows what the input has: parameters, costs, the object that computes. embeddings.hpp has
// the input of encoders. To add one: a class that derives from Input, its kind, and a function that makes the kind.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/costs.hpp"
#include "bert_hpc/layers/linear_weight.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/layers/stream.hpp"
#include "bert_hpc/layers/tensor_group.hpp"

namespace bert_hpc::layers {

class Input {
 public:
  virtual ~Input() = default;

  /// Activations of a micro-batch. "rows": this rank's piece of the tokens; all of them in a group of one. Each input
  /// derives its own.
  struct SavedActivations {
    virtual ~SavedActivations() = default;
    Matrix sum;     ///< (rows, hidden): z
    Matrix output;  ///< (rows, hidden): y
  };
  /// An object for micro-batches in flight, made once; allocate_saved() gives it memory for one micro-batch.
  virtual std::unique_ptr<SavedActivations> make_saved() const = 0;
  virtual void allocate_saved(core::Workspace& workspace, std::int64_t tokens, SavedActivations& saved) const = 0;

  /// The weights of its products.
  virtual std::vector<LinearWeight> linear_weights() const { return {}; }

  /// The result is saved.output, and saved.sum if the input hands on a sum.
  virtual void forward(Engine& engine, const StepContext& context, SavedActivations& saved) const = 0;
  /// d_y (rows, hidden) is used up. Adds to the gradients of the input's parameters.
  virtual void backward_weight(Engine& engine, const StepContext& context, const SavedActivations& saved,
                               const StreamGradient& d_y) const = 0;
};

/// A kind of input with its settings.
class InputKind {
 public:
  virtual ~InputKind() = default;
  virtual std::int64_t hidden() const = 0;  ///< columns of the result
  /// Columns of the widest matrix that it computes.
  virtual std::int64_t most_columns() const { return hidden(); }
  virtual bool sum_out() const { return false; }        ///< hands on z and y, as SublayerSettings::sum_out
  virtual std::int64_t looked_up() const { return 0; }  ///< rows of the table in which tokens look up theirs
  virtual bool can_be_shared() const { return true; }   ///< by a tensor group of several ranks
  /// Appends the input's parameters.
  virtual void declare(std::vector<core::ParameterSpec>& specs, const TensorRank& tensor_rank) const = 0;
  /// `storage`: of activations.
  virtual LayerCosts costs(const BatchShape& batch, DataType storage) const = 0;
  virtual std::unique_ptr<Input> make(const core::ParameterStore& parameters, const TensorGroup& group,
                                      DataType storage) const = 0;
};

}  // namespace bert_hpc::layers
