#include "fp8_byte_product.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "gemm.hpp"

namespace bert_hpc::ops {

ByteFp8Product::ByteFp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> all, bool allocates)
    : Fp8Product(rounded, std::move(all), allocates) {
  for (const Fp8Layer& layer : layers()) {
    begins_.push_back(elements_);
    elements_ += layer.weight.size();
  }
  if (!allocates) return;
  for (auto& copy : weights_) copy = core::Buffer<std::uint8_t>(elements_);
}

std::int64_t ByteFp8Product::reserve_rounded(const ProductExtents& e) {
  scratch_bytes_ = std::max(scratch_bytes_, padded_rows(e.rows) * std::max(e.in, e.out));
  for (auto& scratch : scratch_) {
    if (allocates() && scratch.size() < scratch_bytes_) scratch = core::Buffer<std::uint8_t>(scratch_bytes_);
  }
  return 2 * (elements_ + scratch_bytes_);
}

Tensor<std::uint8_t> ByteFp8Product::weight_place(std::size_t layer, bool turned) const {
  const Tensor<const float>& w = layers()[layer].weight;
  return {weights_[turned ? 1 : 0].data() + begins_[layer], turned ? w.columns : w.rows, turned ? w.rows : w.columns};
}

void ByteFp8Product::round_weight(std::size_t layer) {
  const Fp8Scale scale = scales().of(layer, Fp8Operand::weight);
  round_to_fp8_turned(layers()[layer].weight, scale, weight_place(layer, true), weight_place(layer, false));
}

Fp8Matmul::Operand ByteFp8Product::described(const Tensor<std::uint8_t>& numbers, Fp8Operand operand) const {
  const Fp8Scale s = scale(operand);
  return {numbers.data, numbers.stride, s.format, s.inverse};
}

Fp8Matmul::Operand ByteFp8Product::weight(bool turned) const {
  return described(weight_place(layer(), turned), Fp8Operand::weight);
}

Tensor<std::uint8_t> ByteFp8Product::scratch(Fp8Operand operand, std::int64_t rows, std::int64_t columns) const {
  const core::Buffer<std::uint8_t>& memory = scratch_[operand == Fp8Operand::d_y ? 1 : 0];
  core::require(rows * columns <= memory.size(), "FP8 product: an operand is larger than was reserved");
  return {memory.data(), rows, columns};
}

Fp8Matmul::Operand ByteFp8Product::as_it_is(ConstMatrix x, Fp8Operand operand) {
  const Tensor<std::uint8_t> place = scratch(operand, x.rows, x.columns);
  round_to_fp8(x, scale(operand), true, place);
  return described(place, operand);
}

Fp8Matmul::Operand ByteFp8Product::turned(ConstMatrix x, Fp8Operand operand) {
  const Tensor<std::uint8_t> place = scratch(operand, x.columns, padded_rows(x.rows));
  round_to_fp8_turned(x, scale(operand), place);
  return described(place, operand);
}

void ByteFp8Product::run_forward(ConstMatrix x, const Epilogue& epilogue, Matrix y) {
  if (x.rows == 0) return;
  const Matrix sum = epilogue.sum(y);
  multiply(
      {.m = sum.rows, .n = sum.columns, .k = x.columns, .a = as_it_is(x, Fp8Operand::x), .b = weight(false), .c = sum});
  finish(epilogue, y);
}

void ByteFp8Product::run_backward_input(ConstMatrix d_y, Matrix d_x, const InputEpilogue& epilogue) {
  if (d_y.rows == 0) return;
  multiply({.m = d_x.rows,
            .n = d_x.columns,
            .k = d_y.columns,
            .a = as_it_is(d_y, Fp8Operand::d_y),
            .b = weight(true),
            .c = d_x,
            .beta = epilogue.write == Write::accumulate ? 1.0f : 0.0f});
  finish(epilogue, d_x);
}

void ByteFp8Product::run_backward_weight(ConstMatrix d_y, ConstMatrix x, Tensor<float> d_w, Write write) {
  if (x.rows == 0) {
    if (write == Write::replace) detail::set_zero_rows(d_w);
    return;
  }
  multiply({.m = d_w.rows,
            .n = d_w.columns,
            .k = padded_rows(x.rows),
            .a = turned(d_y, Fp8Operand::d_y),
            .b = turned(x, Fp8Operand::x),
            .c = d_w,
            .beta = write == Write::accumulate ? 1.0f : 0.0f,
            .sums_over_rows = true});
}

}  // namespace bert_hpc::ops
