// Weight γ and bias β of a layer norm among a model's parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"

namespace bert_hpc::layers {

/// Appends NAME.weight and, unless it has none, NAME.bias of a layer norm of `columns`: ones and zeros, which do not
/// decay.
void declare_norm(std::vector<core::ParameterSpec>& specs, const std::string& name, std::int64_t columns,
                  bool has_bias = true);

/// Finds both in the store, which must outlive it.
class NormParameters {
 public:
  NormParameters(const core::ParameterStore& parameters, const std::string& name, bool has_bias);

  const float* gamma() const { return parameters_->value(gamma_).data; }
  /// Null without a bias.
  const float* beta() const { return beta_ < 0 ? nullptr : parameters_->value(beta_).data; }
  /// Null: frozen.
  float* d_gamma() const { return parameters_->gradient(gamma_).data; }
  float* d_beta() const { return beta_ < 0 ? nullptr : parameters_->gradient(beta_).data; }

 private:
  const core::ParameterStore* parameters_;
  int gamma_, beta_;  // beta_: -1 without a bias
};

}  // namespace bert_hpc::layers
