#include "bert_hpc/layers/layer_norm.hpp"

#include "bert_hpc/layers/linear.hpp"

namespace bert_hpc::layers {

void declare_norm(std::vector<core::ParameterSpec>& specs, const std::string& name, std::int64_t columns, NormKind kind,
                  const std::string& copy_of) {
  const auto original = [&copy_of](const char* end) { return copy_of.empty() ? std::string() : copy_of + end; };
  specs.push_back({.name = name + ".weight",
                   .shape = {columns},
                   .decay = false,
                   .copy_of = original(".weight"),
                   .initial = core::InitialValues::ones});
  if (kind != NormKind::layer) return;
  declare_vector(specs, {.name = name + ".bias", .shape = {columns}, .copy_of = original(".bias")});
}

NormParameters::NormParameters(const core::ParameterStore& parameters, const std::string& name, NormKind kind)
    : parameters_(&parameters),
      kind_(kind),
      gamma_(parameters.find(name + ".weight")),
      beta_(kind == NormKind::layer ? parameters.find(name + ".bias") : -1) {}

}  // namespace bert_hpc::layers
