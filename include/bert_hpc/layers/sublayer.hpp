// A sublayer f: a step of the residual stream, between two of which a pipeline can be cut. A plan lists them with their
// settings; each is made by its kind. encoder_sublayers.hpp has the two of BERT's blocks.
//
// Between sublayers the stream has two values, z and y = norm(z). A sublayer reads y and adds its result to the
// residual: z' = residual + dropout(f(y) + bias), y' = norm(z'), so that a layer norm belongs to the edge behind its
// sublayer. The residual is y in a post-norm model (Vaswani et al. 2017; BERT) and z in a pre-norm model (Xiong et al.,
// "On layer normalization in the transformer architecture", 2020; GPT-2):
//
//          embeddings ── norm ──┬── y ──► attention ── + ── norm ──┬── y ──► feed-forward ── + ── norm ── … ──► head
//                               └── y or z ────────────┘           └── y or z ───────────────┘
//
// The last block of a model computes only the rows that the head reads: a classifier reads one row a sequence, masked
// language modelling 15% of them. Its attention computes keys and values for every token, all else for
// the selected rows alone, and its feed-forward is given nothing but these: the same numbers for a fraction of the
// work.
//
// In a tensor group a rank has the rows of the query, key, value and intermediate weights that belong to its heads and
// feed-forward columns, and those columns of the two output weights; biases of the output weights and layer norms are
// whole. What lies between products is kept in pieces of token rows and gathered for each product that needs it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "bert_hpc/core/parameter_store.hpp"
#include "bert_hpc/core/workspace.hpp"
#include "bert_hpc/layers/costs.hpp"
#include "bert_hpc/layers/layer_norm.hpp"
#include "bert_hpc/layers/linear.hpp"
#include "bert_hpc/layers/step_context.hpp"
#include "bert_hpc/layers/stream.hpp"
#include "bert_hpc/layers/tensor_group.hpp"
#include "bert_hpc/ops/activation.hpp"

namespace bert_hpc::layers {

class Sublayer;
struct SublayerSettings;

/// A linear layer of a sublayer, as adapters and costs see it.
struct SublayerLinear {
  std::string name;  ///< without ".weight"
  std::int64_t in = 0, out = 0;
  bool all_tokens = false;       ///< computed for every token, even if the sublayer computes a selection of rows
  bool usually_adapted = false;  ///< PEFT adapts it if it is given no names
};

/// A kind of sublayer, with the settings that it alone has (encoder_sublayers.hpp).
class SublayerKind {
 public:
  virtual ~SublayerKind() = default;
  virtual std::string name() const = 0;  ///< for messages: "attention"
  /// Whether a row of the result depends on other tokens of its sequence.
  virtual bool mixes_tokens() const = 0;
  /// Whether attention is given relative positions (ops/relative_positions.hpp).
  virtual bool has_relative_positions() const { return false; }
  virtual bool can_be_shared() const { return true; }  ///< by a tensor group of several ranks
  virtual std::vector<SublayerLinear> linear_layers(const SublayerSettings& settings) const = 0;
  /// Appends the sublayer's parameters.
  virtual void declare(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
                       const TensorRank& tensor_rank) const = 0;
  /// `selects`: the sublayer computes the rows that the head reads, else all tokens.
  virtual LayerCosts costs(const SublayerSettings& settings, const BatchShape& batch, bool selects) const = 0;
  virtual std::unique_ptr<Sublayer> make(const SublayerSettings& settings, const core::ParameterStore& parameters,
                                         const TensorGroup& group) const = 0;
  /// Whether `other` computes the same but for the names of parameters.
  virtual bool computes_like(const SublayerKind& other) const = 0;
};

/// Settings that sublayers of every kind have.
struct SublayerSettings {
  std::shared_ptr<const SublayerKind> kind{};
  std::int64_t block = 0;  ///< index of the block that the sublayer belongs to
  std::int64_t hidden = 0;
  std::string output = "output", norm = "norm";  ///< names of the last product and of the layer norm
  float layer_norm_epsilon = 1e-12f;
  bool biases = true;  ///< of the products
  NormKind norm_kind = NormKind::layer;
  float hidden_dropout = 0.1f;
  DataType storage = DataType::fp32;  ///< of activations
  std::uint32_t first_site = 0;       ///< of its block, whose dropout sites are first_site … first_site + 2
  AdapterSettings adapters{};         ///< of its linear layers
  bool fuses_row_sums = false;        ///< the kernels of backward_input begin the gradients of vectors
  bool sum_out = false;               ///< the residual that it hands on is the sum before the norm (pre-norm)
  bool sum_in = false;                ///< the residual that it is given is such a sum: follows from the edge below
};

/// Whether two sublayers do the same work: they differ in names and in keys of dropout alone.
bool computes_like(const SublayerSettings& a, const SublayerSettings& b);

class Sublayer {
 public:
  virtual ~Sublayer() = default;

  /// The weights of its products of tokens, adapters included, for a selection of its rows or for all of them.
  virtual std::vector<LinearWeight> linear_weights(bool selects) const = 0;
  /// The weights of its products of other rows, which are never computed in 8 bits.
  virtual std::vector<LinearWeight> other_weights() const { return {}; }

  /// What backward needs of forward, in the workspace. Each kind of sublayer derives its own.
  struct SavedActivations {
    virtual ~SavedActivations() = default;
    Matrix output;                   ///< (rows that it computes here, hidden): y
    Matrix sum;                      ///< shaped as output: z
    Matrix both;                     ///< if it hands on the sum: z and, in the rows behind it, y
    std::int64_t dropout_bytes = 0;  ///< of the workspace, for what attention's dropout keeps
  };

  /// What the weight gradients need of the gradients.
  struct WeightGradientInputs {
    virtual ~WeightGradientInputs() = default;
    /// backward_weight() follows at once: kernels of backward_input() may add to the gradients too.
    bool at_once = false;
  };

  /// Objects for micro-batches in flight, made once; the allocate functions give them memory for one micro-batch.
  virtual std::unique_ptr<SavedActivations> make_saved() const = 0;
  virtual std::unique_ptr<WeightGradientInputs> make_deferred() const = 0;

  /// `saved` and `deferred` must come from this sublayer. `selection` is null if every row is computed;
  /// `dropout_tiles` as in BatchBounds, 0 without a backward pass.
  virtual void allocate_saved(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                              std::int64_t dropout_tiles, SavedActivations& saved) const = 0;
  virtual void allocate_deferred(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection,
                                 WeightGradientInputs& deferred) const = 0;

  /// x (this rank's piece, hidden), of all tokens for attention, of the rows that it computes for feed-forward; the
  /// result is in `saved`.
  virtual void forward(Engine& engine, const StepContext& context, const RowSelection* selection, const Stream& x,
                       SavedActivations& saved) const = 0;

  /// d_y (piece, hidden) must stay until backward_weight; d_x, shaped as x, is replaced. d_y.residual has no data if
  /// the sublayer hands on no sum or nothing reads it, and d_x.residual has data if the sublayer is given a sum. Takes
  /// scratch from the workspace and releases it.
  virtual void backward_input(Engine& engine, const StepContext& context, const RowSelection* selection,
                              const SavedActivations& saved, const StreamGradient& d_y, WeightGradientInputs& deferred,
                              const StreamGradient& d_x, core::Workspace& workspace) const = 0;
  /// What backward_input takes, for planning.
  virtual void plan_scratch(core::Workspace& workspace, std::int64_t tokens, const RowSelection* selection) const = 0;

  /// Adds to the gradients of this sublayer's parameters. x: the normalized value of forward's.
  virtual void backward_weight(Engine& engine, const StepContext& context, const RowSelection* selection,
                               const SavedActivations& saved, const WeightGradientInputs& deferred,
                               ConstMatrix x) const = 0;
};

inline void declare_sublayer(const SublayerSettings& settings, std::vector<core::ParameterSpec>& specs,
                             const TensorRank& tensor_rank = {}) {
  settings.kind->declare(settings, specs, tensor_rank);
}
inline std::unique_ptr<Sublayer> make_sublayer(const SublayerSettings& settings, const core::ParameterStore& parameters,
                                               const TensorGroup& group = {}) {
  return settings.kind->make(settings, parameters, group);
}

}  // namespace bert_hpc::layers
