// The part that all kinds of sublayers have in common: their own settings, and the class that computes.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "bert_hpc/layers/sublayer.hpp"

namespace bert_hpc::layers {

/// `Layer` declares its parameters and is constructed from what all kinds share and from `Own`.
template <class Layer, class Own>
class KindOf : public SublayerKind {
 public:
  explicit KindOf(Own own) : own_(std::move(own)) {}

  void declare(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
               const TensorRank& tensor_rank) const override {
    Layer::declare(settings, own_, specs, tensor_rank);
  }
  std::unique_ptr<Sublayer> make(const SublayerSettings& settings, const core::ParameterStore& parameters,
                                 const TensorGroup& group) const override {
    return std::make_unique<Layer>(settings, own_, parameters, group);
  }

 protected:
  Own own_;
};

}  // namespace bert_hpc::layers
