// The residual stream between the sublayers of a model; sublayer.hpp says what its values are.
#pragma once

#include "bert_hpc/core/matrix.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/tensor_group.hpp"

namespace bert_hpc::layers {

/// Values that an edge hands to the next sublayer.
struct Stream {
  Stream() = default;
  /// Post-norm: the residual is the normalized value.
  Stream(ConstMatrix normalized) : residual(normalized), y(normalized) {}  // NOLINT(google-explicit-constructor)
  Stream(ConstMatrix sum, ConstMatrix normalized) : residual(sum), y(normalized) {}
  ConstMatrix residual{}, y{};
};

/// Memory for this rank's piece of both values of a stream of `rows` tokens, one behind the other: z, then y.
Matrix take_stream(core::Workspace& workspace, const TensorGroup& group, std::int64_t rows, std::int64_t hidden,
                   DataType storage);
inline Matrix first_half(const Matrix& both) {
  return both.row_range(0, both.rows / 2);
}
inline Matrix second_half(const Matrix& both) {
  return both.row_range(both.rows / 2, both.rows / 2);
}

/// Gradients with respect to a Stream. Without data in `residual` y's gradient is that of both.
struct StreamGradient {
  StreamGradient() = default;
  StreamGradient(Matrix both) : y(both) {}  // NOLINT(google-explicit-constructor)
  StreamGradient(Matrix of_residual, Matrix of_y) : residual(of_residual), y(of_y) {}
  Matrix residual{}, y{};
};

}  // namespace bert_hpc::layers
