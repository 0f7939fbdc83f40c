// Weight γ and bias β of a norm among a model's parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/tensor.hpp"

namespace bert_hpc::layers {

/// A layer norm with weight and bias, or with a weight alone; an RMS norm, which has a weight and subtracts no mean.
enum class NormKind { layer, layer_without_bias, rms };

/// Appends NAME.weight and, if it has one, NAME.bias of a norm of `columns`: ones and zeros, which do not decay.
/// `copy_of`: the name of another norm, which this one always equals, or empty.
void declare_norm(std::vector<core::ParameterSpec>& specs, const std::string& name, std::int64_t columns,
                  NormKind kind = NormKind::layer, const std::string& copy_of = "");

/// Finds both in the store, which must outlive it.
class NormParameters {
 public:
  NormParameters(const core::ParameterStore& parameters, const std::string& name, NormKind kind);

  bool is_trained() const {
    return parameters_->is_trainable(gamma_) || (beta_ >= 0 && parameters_->is_trainable(beta_));
  }
  const float* gamma() const { return parameters_->value(gamma_).data; }
  /// Null without a bias.
  const float* beta() const { return beta_ < 0 ? nullptr : parameters_->value(beta_).data; }
  /// Null: frozen.
  float* d_gamma() const { return parameters_->gradient(gamma_).data; }
  float* d_beta() const { return beta_ < 0 ? nullptr : parameters_->gradient(beta_).data; }

  // Rows of the saved statistics, (2, rows). mean: null for an RMS norm.
  float* mean(const core::Tensor<float>& statistics) const {
    return kind_ == NormKind::rms ? nullptr : statistics.row(0);
  }
  static float* rstd(const core::Tensor<float>& statistics) { return statistics.row(1); }

 private:
  const core::ParameterStore* parameters_;
  NormKind kind_;
  int gamma_, beta_;  // beta_: -1 without a bias
};

}  // namespace bert_hpc::layers
