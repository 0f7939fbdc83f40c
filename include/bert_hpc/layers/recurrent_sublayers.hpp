// The sublayers of a recurrent model: LSTM layers in both directions, pooling of their results to the rows that the
// head reads, and dropout. None has a layer norm or a residual: each reads y and hands on its result, whose columns
// need not be as many. A tensor group cannot share them out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/ops/pooling.hpp"

namespace bert_hpc::layers {

struct LstmSettings {
  /// Names of whole parameters, forward direction first: of the weights of inputs and of states, and of the two biases.
  std::array<std::string, 2> input_weight{}, state_weight{}, input_bias{}, state_bias{};
  std::int64_t input = 0;   ///< columns of the input
  std::int64_t states = 0;  ///< columns of each direction: its result has twice as many
};

/// SublayerSettings::hidden is twice LstmSettings::states, and SublayerSettings::hidden_dropout the dropout of the
/// result.
std::shared_ptr<const SublayerKind> lstm_sublayer(LstmSettings settings);

/// The first sublayer that computes a selection of rows: one for each sequence, pooled of its tokens, or without
/// `pooling` those of the selected tokens. Without a selection it hands on all rows.
std::shared_ptr<const SublayerKind> pooling_sublayer(std::optional<ops::Pooling> pooling);

/// y' = dropout(y).
std::shared_ptr<const SublayerKind> dropout_sublayer();

}  // namespace bert_hpc::layers
