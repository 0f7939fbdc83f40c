#include "bert_hpc/layers/layer_norm.hpp"

#include "bert_hpc/layers/linear.hpp"

namespace bert_hpc::layers {

void declare_norm(std::vector<core::ParameterSpec>& specs, const std::string& name, std::int64_t columns,
                  bool has_bias) {
  specs.push_back({.name = name + ".weight", .shape = {columns}, .decay = false, .initial = core::InitialValues::ones});
  if (!has_bias) return;
  declare_vector(specs, {.name = name + ".bias", .shape = {columns}});
}

NormParameters::NormParameters(const core::ParameterStore& parameters, const std::string& name, bool has_bias)
    : parameters_(&parameters),
      gamma_(parameters.find(name + ".weight")),
      beta_(has_bias ? parameters.find(name + ".bias") : -1) {}

}  // namespace bert_hpc::layers
