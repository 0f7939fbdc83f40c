// A model as a list of its layers, input, sublayers and head: what a family makes of a configuration, and all that the
// rest of the program reads to list parameters, to build layers, and to know what they cost.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bert_hpc/layers/heads.hpp"
#include "bert_hpc/layers/input.hpp"
#include "bert_hpc/layers/sublayer.hpp"
#include "bert_hpc/model/model_config.hpp"
#include "bert_hpc/model/weight_table.hpp"

namespace bert_hpc::model {

using core::DataType;
using HeadKind = layers::HeadKind;

/// Whether a training changes the whole parameter of this name.
using Trains = std::function<bool(const std::string& name)>;

/// What of a layer takes part in a training.
struct LayerTraining {
  bool backward = true;  ///< it trains a parameter, or a layer below it does: it has a backward pass
  double weights = 1;    ///< the share of its matrices' elements that is trained
};

/// Which sublayers of a training keep nothing but their result between the forward pass and the backward pass, which
/// computes the rest again (Chen et al., "Training deep nets with sublinear memory cost", 2016). The sublayers of a
/// block that are computed again follow each other, and the result between them is not kept either.
struct Recomputation {
  bool attention = false;      ///< those of attention
  std::int64_t sublayers = 0;  ///< and so many, the lowest
};

/// Low-rank adapters of linear layers (model/low_rank.hpp).
struct LowRankSettings {
  std::int64_t rank = 8;
  double alpha = 8;
  bool rank_stabilized =
      false;                ///< Kalajdzievski, "A rank stabilization scaling factor for fine-tuning with LoRA", 2023
  bool magnitudes = false;  ///< DoRA
  double dropout = 0;
  /// Names of linear layers, or their last parts ("query", "output.dense"), or "all-linear"; empty: query and value.
  std::vector<std::string> targets{};

  double scale() const;  ///< alpha / rank, or alpha / √rank
};

/// A linear layer beside the residual stream at an edge (layers/stream_observer.hpp), for the pass's observer. Its
/// parameters, NAME.weight and NAME.bias, are trained, and are in checkpoints but not in folders of the model.
struct Projection {
  std::int64_t edge = 0;
  std::string name;
  std::int64_t in = 0, out = 0;
};

struct ModelPlan {
  std::shared_ptr<const layers::InputKind> input{};
  std::vector<layers::SublayerSettings> sublayers;  ///< in the order of a forward pass
  /// This sublayer and those after it compute only the rows that the head reads; it itself reads all tokens, as an
  /// attention their keys and values.
  std::int64_t selects_from = 0;
  layers::HeadSettings head;
  bool head_reads_sum = false;        ///< z instead of y (layers/sublayer.hpp); without a backward pass
  DataType storage = DataType::fp32;  ///< of activations
  WeightTable weights{};              ///< tensors of files that hold the parameters
  std::function<void(core::ParameterSpec&)> change_spec{};  ///< of initial values that are the family's own, or empty
  bool shares_blocks = false;             ///< several blocks have the same parameters: none is trained or taken alone
  std::vector<Projection> projections{};  ///< of a training of all parameters, at most one an edge
  Recomputation recomputation{};
  std::optional<LowRankSettings> low_rank{};  ///< of the sublayers' adapters, where there are any; see add_adapters()
  // What a training changes, of set_trains(); both empty: everything.
  Trains trains{};
  std::vector<LayerTraining> training{};  ///< of the input, the sublayers and the head

  LayerTraining input_training() const { return training_of(0); }
  LayerTraining sublayer_training(std::int64_t sublayer) const { return training_of(1 + sublayer); }
  LayerTraining head_training() const { return training_of(1 + sublayer_count()); }
  /// Whether a layer before this sublayer is trained.
  bool trains_below(std::int64_t sublayer) const { return training_of(sublayer).backward; }

  /// Whether the backward pass computes this sublayer again.
  bool recomputes(std::int64_t sublayer) const {
    const bool attention = sublayers[static_cast<std::size_t>(sublayer)].kind->mixes_tokens();
    return sublayer_training(sublayer).backward &&
           (sublayer < recomputation.sublayers || (recomputation.attention && attention));
  }
  /// Whether its result is kept. It is not if the next sublayer of its block is computed again together with it.
  bool keeps_result(std::int64_t sublayer) const {
    const auto at = static_cast<std::size_t>(sublayer);
    return sublayer + 1 == sublayer_count() || sublayers[at].block != sublayers[at + 1].block ||
           !recomputes(sublayer) || !recomputes(sublayer + 1);
  }

  /// Null: there is none.
  const Projection* projection_at(std::int64_t edge) const {
    const auto found = std::find_if(projections.begin(), projections.end(),
                                    [edge](const Projection& projection) { return projection.edge == edge; });
    return found != projections.end() ? &*found : nullptr;
  }

  std::int64_t sublayer_count() const { return std::ssize(sublayers); }
  /// Whether a tensor group of several ranks can share out every layer.
  bool can_be_shared() const;
  bool has_relative_positions() const;  ///< of attention, in any sublayer
  /// Sublayers of each block, as users count what a pipeline's stage holds and what is recomputed. Blocks are alike.
  std::int64_t sublayers_of_block() const {
    const std::int64_t blocks = sublayers.empty() ? 1 : sublayers.back().block + 1;
    return sublayer_count() / blocks;
  }
  /// Whether the edge into a sublayer, or into the head behind the last one, hands on the sum beside the normalized
  /// value. The head reads one of the two.
  bool hands_on_sum(std::int64_t sublayer) const {
    if (sublayer == sublayer_count()) return false;
    return sublayer == 0 ? input->sum_out() : sublayers[static_cast<std::size_t>(sublayer) - 1].sum_out;
  }
  /// Whether this sublayer computes only the rows that the head reads.
  bool computes_selection(std::int64_t sublayer) const { return sublayer >= selects_from; }
  /// Whether its input has only these rows.
  bool receives_selection(std::int64_t sublayer) const { return sublayer > selects_from; }

  /// Columns of the stream into a sublayer, or into the head behind the last one.
  std::int64_t width(std::int64_t sublayer) const {
    return sublayer == 0 ? input->hidden() : sublayers[static_cast<std::size_t>(sublayer) - 1].hidden;
  }
  std::int64_t most_columns() const;            ///< the widest of them
  std::int64_t most_exchanged_columns() const;  ///< of rows that a tensor group gathers: within the ends, too
  double element_bytes() const { return static_cast<double>(core::bytes_of(storage)); }  ///< of activations

 private:
  LayerTraining training_of(std::int64_t layer) const {
    return training.empty() ? LayerTraining() : training[static_cast<std::size_t>(layer)];
  }
};

}  // namespace bert_hpc::model
