// The common part of all FP8 gemms, and the portable implementation.
#include "bert_hpc/ops/fp8_product.hpp"

#include <algorithm>
#include <utility>

#include "bert_hpc/core/error.hpp"
#include "bert_hpc/ops/activation.hpp"
#include "bert_hpc/ops/fp8_rounding.hpp"
#include "fp8_byte_product.hpp"

namespace bert_hpc::ops {
namespace {

std::vector<std::string> names_of(const std::vector<Fp8Layer>& layers) {
  std::vector<std::string> names;
  for (const Fp8Layer& layer : layers) names.push_back(layer.name);
  return names;
}

/// Rounds x and d_y into bf16 scratch and weights into floats, which the other matrix product reads.
class PortableFp8Product final : public Fp8Product {
 public:
  PortableFp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> all, bool allocates)
      : Fp8Product(rounded, std::move(all), allocates) {
    for (const Fp8Layer& layer : layers()) {
      begins_.push_back(elements_);
      elements_ += layer.weight.size();
    }
    if (allocates) weights_ = core::Buffer<float>(elements_);
  }

  std::string name() const override { return "FP8 in bf16"; }

 private:
  std::int64_t reserve_rounded(const ProductExtents& e) override {
    const std::int64_t needed = e.rows * std::max(e.in, e.out);
    scratch_elements_ = std::max(scratch_elements_, needed);
    for (auto& scratch : scratch_) {
      if (allocates() && scratch.size() < needed) scratch = core::Buffer<core::Bf16>(needed);
    }
    return elements_ * static_cast<std::int64_t>(sizeof(float)) +
           2 * scratch_elements_ * static_cast<std::int64_t>(sizeof(core::Bf16));
  }

  Tensor<float> weight(std::size_t layer) const {
    const Tensor<const float>& w = layers()[layer].weight;
    return {weights_.data() + begins_[layer], w.rows, w.columns};
  }
  Tensor<const float> weight() const { return weight(layer()); }

  void round_weight(std::size_t layer) override {
    round_through_fp8(rounded().read(layers()[layer].weight), scales().of(layer, Fp8Operand::weight), false,
                      weight(layer));
  }

  ConstMatrix through_fp8(ConstMatrix x, Fp8Operand operand, bool notes) {
    core::Buffer<core::Bf16>& scratch = scratch_[operand == Fp8Operand::d_y ? 1 : 0];
    core::require(x.size() <= scratch.size(), "FP8 product: an operand is larger than was reserved");
    const Tensor<core::Bf16> y(scratch.data(), x.rows, x.columns);
    round_through_fp8(x, scale(operand), notes, y);
    return y;
  }

  void run_forward(const ProductOperand& x, const Epilogue& epilogue, Matrix y) override {
    rounded().forward(through_fp8(x.matrix, Fp8Operand::x, true), weight(), epilogue, y);
  }
  void run_backward_input(const ProductOperand& d_y, Matrix d_x, const InputEpilogue& epilogue) override {
    rounded().backward_input(through_fp8(d_y.matrix, Fp8Operand::d_y, true), weight(), d_x, epilogue);
  }
  void run_backward_weight(const ProductOperand& d_y, const ProductOperand& x, Matrix d_w, Write write) override {
    const ConstMatrix gradient = through_fp8(d_y.matrix, Fp8Operand::d_y, false);
    rounded().backward_weight(gradient, through_fp8(x.matrix, Fp8Operand::x, false), d_w, nullptr, write);
  }

  std::vector<std::int64_t> begins_;  // by layer
  std::int64_t elements_ = 0, scratch_elements_ = 0;
  core::Buffer<float> weights_;
  core::Buffer<core::Bf16> scratch_[2];  // of x, and of d_y
};

}  // namespace

Fp8Product::Fp8Product(MatrixProduct& rounded, std::vector<Fp8Layer> layers, bool allocates)
    : rounded_(rounded), layers_(std::move(layers)), allocates_(allocates), scales_(names_of(layers_), allocates) {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    core::require(by_id_.emplace(layers_[i].id, i).second, "FP8 product: two layers of one id");
    const Tensor<const float>& w = layers_[i].weight;
    core::require(w.rows % fp8_granularity == 0 && w.columns % fp8_granularity == 0 && w.contiguous(),
                  "FP8 product: extents that are no multiples of 16");
  }
}

Fp8Product& Fp8Product::of(int id) {
  const auto found = by_id_.find(id);
  core::require(found != by_id_.end(), "FP8 product: no such layer");
  layer_ = found->second;
  return *this;
}

void Fp8Product::note_weights() {
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    note_magnitude(rounded_.read(layers_[i].weight), scales_.of(i, Fp8Operand::weight));
  }
}

void Fp8Product::round_weights() {
  scales_.scale_weights();
  for (std::size_t i = 0; i < layers_.size(); ++i) round_weight(i);
}

std::int64_t Fp8Product::reserve(const ProductExtents& largest) {
  return scales_.bytes() + reserve_rounded(largest);
}

void Fp8Product::forward(ConstMatrix x, Tensor<const float> w, const Epilogue& epilogue, Matrix y) {
  if (scales_.known()) return run_forward(x, epilogue, y);
  note_magnitude(x, scale(Fp8Operand::x));
  rounded_.forward(x, w, epilogue, y);
}

void Fp8Product::backward_input(ConstMatrix d_y, Tensor<const float> w, Matrix d_x, const InputEpilogue& epilogue) {
  if (scales_.known()) return run_backward_input(d_y, d_x, epilogue);
  note_magnitude(d_y, scale(Fp8Operand::d_y));
  rounded_.backward_input(d_y, w, d_x, epilogue);
}

void Fp8Product::backward_weight(ConstMatrix d_y, ConstMatrix x, Matrix d_w, float* d_bias, Write write) {
  if (!scales_.known()) return rounded_.backward_weight(d_y, x, d_w, d_bias, write);
  if (d_bias != nullptr) column_sums(d_y, d_bias, write);
  run_backward_weight(d_y, x, d_w, write);
}

std::unique_ptr<Fp8Product> make_fp8_product(MatrixProduct& rounded, std::vector<Fp8Layer> layers,
                                             const Fp8Settings& settings) {
  if (!settings.portable) {
    if (auto product = make_device_fp8_product(rounded, layers, settings)) return product;
  }
  return std::make_unique<PortableFp8Product>(rounded, std::move(layers), settings.allocates);
}

}  // namespace bert_hpc::ops
