#include "bert_hpc/layers/sublayer.hpp"

#include <tuple>
#include <utility>

namespace bert_hpc::layers {

bool computes_like(const SublayerSettings& a, const SublayerSettings& b) {
  const auto adapters = [](const SublayerSettings& s) {
    std::vector<bool> adapted;
    for (const SublayerLinear& layer : s.kind->linear_layers(s)) adapted.push_back(s.adapters.adapts(layer.name));
    return std::tuple(std::move(adapted), s.adapters.rank, s.adapters.scale, s.adapters.dropout, s.adapters.magnitudes);
  };
  return a.kind->computes_like(*b.kind) && a.hidden == b.hidden && a.layer_norm_epsilon == b.layer_norm_epsilon &&
         a.biases == b.biases && a.norm_kind == b.norm_kind && a.hidden_dropout == b.hidden_dropout &&
         a.storage == b.storage && a.fuses_row_sums == b.fuses_row_sums && a.sum_in == b.sum_in &&
         a.sum_out == b.sum_out && adapters(a) == adapters(b);
}

}  // namespace bert_hpc::layers
