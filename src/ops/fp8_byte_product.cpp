#include "fp8_byte_product.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "gemm.hpp"

namespace bert_hpc::ops {

ByteFp8Product::ByteFp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> all, bool allocates)
    : Fp8Product(rounded, std::move(all), allocates), outstanding_(layers().size()) {
  for (const Fp8Layer& layer : layers()) {
    begins_.push_back(elements_);
    elements_ += layer.weight.size();
  }
  if (!allocates) return;
  for (auto& copy : weights_) copy = core::Buffer<std::uint8_t>(elements_);
}

std::int64_t ByteFp8Product::reserve_rounded(const ProductExtents& e) {
  scratch_bytes_ = std::max(scratch_bytes_, padded_rows(e.rows) * std::max(e.in, e.out));
  for (auto* buffer : {&scratch_, &transposed_[0].numbers, &transposed_[1].numbers}) {
    if (allocates() && buffer->size() < scratch_bytes_) *buffer = core::Buffer<std::uint8_t>(scratch_bytes_);
  }
  return 2 * elements_ + 3 * scratch_bytes_;
}

Tensor<std::uint8_t> ByteFp8Product::weight_memory(std::size_t layer, bool transposed) const {
  const Tensor<const float>& w = layers()[layer].weight;
  return {weights_[transposed ? 1 : 0].data() + begins_[layer], transposed ? w.columns : w.rows,
          transposed ? w.rows : w.columns};
}

void ByteFp8Product::round_weight(std::size_t layer) {
  const Fp8Scale scale = scales().of(layer, Fp8Operand::weight);
  round_to_fp8_transposed(rounded().read(layers()[layer].weight), scale, false, weight_memory(layer, true),
                          weight_memory(layer, false));
}

Fp8Matmul::Operand ByteFp8Product::described(const Tensor<std::uint8_t>& numbers, Fp8Operand operand) const {
  const Fp8Scale s = scale(operand);
  return {numbers.data, numbers.stride, s.format, s.inverse};
}

Fp8Matmul::Operand ByteFp8Product::weight(bool transposed) const {
  return described(weight_memory(layer(), transposed), Fp8Operand::weight);
}

Tensor<std::uint8_t> ByteFp8Product::matrix_in(const core::Buffer<std::uint8_t>& memory, std::int64_t rows,
                                               std::int64_t columns) {
  core::require(rows * columns <= memory.size(), "FP8 product: an operand is larger than was reserved");
  return {memory.data(), rows, columns};
}

ByteFp8Product::TransposedGradient& ByteFp8Product::next_transposed() {
  next_ = 1 - next_;
  transposed_[next_].data = nullptr;
  return transposed_[next_];
}

void ByteFp8Product::forget_transposed() {
  for (TransposedGradient& t : transposed_) {
    if (t.layer == layer()) t.data = nullptr;
  }
}

/// The transposed 8-bit copy of d_y; made here unless run_backward_input() made it already.
Fp8Matmul::Operand ByteFp8Product::transposed_gradient(const ProductOperand& d_y) {
  for (TransposedGradient& t : transposed_) {
    if (t.data != d_y.matrix.data || t.layer != layer() || t.rows != d_y.matrix.rows) continue;
    t.data = nullptr;
    return described(matrix_in(t.numbers, d_y.matrix.columns, padded_rows(d_y.matrix.rows)), Fp8Operand::d_y);
  }
  const Tensor<std::uint8_t> numbers =
      matrix_in(next_transposed().numbers, d_y.matrix.columns, padded_rows(d_y.matrix.rows));
  round_to_fp8_transposed(d_y, scale(Fp8Operand::d_y), false, numbers);
  return described(numbers, Fp8Operand::d_y);
}

const void* ByteFp8Product::copied(const float* bias, const Matrix& sum) {
  if (bias == nullptr) return nullptr;
  const ConstMatrix copy = rounded().read(Tensor<const float>(bias, 1, sum.columns));
  return copy.type == sum.type ? copy.data : nullptr;
}

/// As of 16-bit products, a bias that the product adds leaves a kernel with the activation alone.
void ByteFp8Product::run_forward(const ProductOperand& x, const Epilogue& epilogue, Matrix y) {
  if (x.matrix.rows == 0) return;
  const Matrix sum = epilogue.sum(y);
  const Tensor<std::uint8_t> numbers = matrix_in(scratch_, x.matrix.rows, x.matrix.columns);
  round_to_fp8(x, scale(Fp8Operand::x), true, numbers);
  Fp8Matmul product{.m = sum.rows,
                    .n = sum.columns,
                    .k = x.matrix.columns,
                    .a = described(numbers, Fp8Operand::x),
                    .b = weight(false),
                    .c = sum,
                    .fast_sums = true,
                    .bias = copied(epilogue.bias, sum)};
  if (product.bias != nullptr && !adds_bias(product)) product.bias = nullptr;
  multiply(product);
  if (product.bias == nullptr) return finish(epilogue, y);
  if (epilogue.activation != Activation::none) activate(epilogue, y);
}

void ByteFp8Product::run_backward_input(const ProductOperand& d_y, Matrix d_x, const InputEpilogue& epilogue) {
  if (d_y.matrix.rows == 0) return;
  const Tensor<std::uint8_t> numbers = matrix_in(scratch_, d_y.matrix.rows, d_y.matrix.columns);
  const Fp8Scale d_y_scale = scale(Fp8Operand::d_y);
  forget_transposed();
  TransposedGradient& t = next_transposed();
  round_to_fp8_transposed(d_y, d_y_scale, true, matrix_in(t.numbers, d_y.matrix.columns, padded_rows(d_y.matrix.rows)),
                          numbers);
  // With two gradients of weights outstanding, as zero-bubble schedules have them, it is not known which comes first.
  if (++outstanding_[layer()] == 1) {
    t.layer = layer();
    t.data = d_y.matrix.data;
    t.rows = d_y.matrix.rows;
  }
  multiply({.m = d_x.rows,
            .n = d_x.columns,
            .k = d_y.matrix.columns,
            .a = described(numbers, Fp8Operand::d_y),
            .b = weight(true),
            .c = d_x,
            .beta = epilogue.write == Write::accumulate ? 1.0f : 0.0f});
  finish(epilogue, d_x);
}

void ByteFp8Product::run_backward_weight(const ProductOperand& d_y, const ProductOperand& x, Matrix d_w, Write write) {
  if (x.matrix.rows == 0) {
    if (write == Write::replace) detail::set_zero_rows(d_w);
    return;
  }
  if (outstanding_[layer()] > 0) --outstanding_[layer()];
  const Tensor<std::uint8_t> numbers = matrix_in(scratch_, x.matrix.columns, padded_rows(x.matrix.rows));
  round_to_fp8_transposed(x, scale(Fp8Operand::x), false, numbers);
  multiply({.m = d_w.rows,
            .n = d_w.columns,
            .k = padded_rows(x.matrix.rows),
            .a = transposed_gradient(d_y),
            .b = described(numbers, Fp8Operand::x),
            .c = d_w,
            .beta = write == Write::accumulate ? 1.0f : 0.0f,
            .sums_over_rows = true});
}

}  // namespace bert_hpc::ops
