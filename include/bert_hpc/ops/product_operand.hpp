// An operand of a linear layer's products that is a function of other matrices, so that a product that converts its
// operands anyway computes it meanwhile. Numbers equal those of the operand stored in the matrices' type.
#pragma once

#include <concepts>

#include "bert_hpc/core/matrix.hpp"

namespace bert_hpc::ops {

struct ProductOperand {
  enum class Form {
    plain,          ///< matrix
    gelu,           ///< gelu(matrix)
    gelu_gradient,  ///< matrix ∘ gelu'(pre)
  };

  // Implicit, as most operands are matrices.
  template <std::convertible_to<core::ConstMatrix> Stored>
  ProductOperand(const Stored& stored) : matrix(stored) {}  // NOLINT(google-explicit-constructor)

  static ProductOperand gelu(core::ConstMatrix x) { return {x, Form::gelu, {}, {}}; }
  /// `sums`, unless it has no data: (partial_sums(rows), columns), whose columns sum up to those of the operand.
  static ProductOperand gelu_gradient(core::ConstMatrix x, core::ConstMatrix pre, core::Tensor<float> sums) {
    return {x, Form::gelu_gradient, pre, sums};
  }
  /// Rows of partial sums of a matrix of so many rows.
  static constexpr std::int64_t partial_sums(std::int64_t rows) { return (rows + rows_of_sum - 1) / rows_of_sum; }
  static constexpr std::int64_t rows_of_sum = 128;

  bool is_matrix() const { return form == Form::plain; }

  core::ConstMatrix matrix{};
  Form form = Form::plain;
  core::ConstMatrix pre{};  ///< of the matrix' shape and type
  core::Tensor<float> sums{};

 private:
  ProductOperand(core::ConstMatrix stored, Form kind, core::ConstMatrix before, core::Tensor<float> partial)
      : matrix(stored), form(kind), pre(before), sums(partial) {}
};

}  // namespace bert_hpc::ops
